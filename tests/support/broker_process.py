"""A broker of its own process: `python broker_process.py DIRECTORY BOOT`. The core is the stand's."""

import sys
import time

from scheduler.bus.broker import Broker
from scheduler.core import Appliance, Limits
from scheduler.wire.catalogue import CatalogueBody
from support.stand import catalogue

if __name__ == "__main__":
    directory, boot = sys.argv[1], int(sys.argv[2])
    core = Appliance(catalogue(), Limits(), boot=boot, at=time.monotonic())
    endpoints = (f"ipc://{directory}/clients.sock", f"ipc://{directory}/workers.sock")
    Broker(core, CatalogueBody("{}"), *endpoints, about={"version": "test"}).run()
