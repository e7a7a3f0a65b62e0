"""The bare baseline: a pyzmq relay and an echoing worker, nothing decided, nothing remembered.

`python -m ops.bench.relay relay FRONT BACK` and `... worker BACK REPLY_BYTES HEADER_BYTES`. The relay is the
usual one: two ROUTERs, each drained until it is empty, `recv_multipart` and `send_multipart`.
"""

import sys

import zmq


def relay(front: str, back: str) -> None:
    """Pass messages between clients and one worker until killed."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    clients, workers = context.socket(zmq.ROUTER), context.socket(zmq.ROUTER)
    for socket in (clients, workers):
        socket.setsockopt(zmq.SNDHWM, 0)
        socket.setsockopt(zmq.RCVHWM, 0)
    clients.bind(front)
    workers.bind(back)
    poller = zmq.Poller()
    poller.register(clients, zmq.POLLIN)
    poller.register(workers, zmq.POLLIN)
    worker = b""
    while True:
        ready = dict(poller.poll())
        if workers in ready:
            while True:
                try:
                    message = workers.recv_multipart(zmq.NOBLOCK)
                except zmq.Again:
                    break
                if message[1] == b"READY":
                    worker = message[0]
                    continue
                clients.send_multipart(message[1:])
        if clients in ready and worker:
            while True:
                try:
                    message = clients.recv_multipart(zmq.NOBLOCK)
                except zmq.Again:
                    break
                workers.send_multipart([worker, *message])


def worker(back: str, header_bytes: int, body_bytes: int) -> None:
    """Answer every message with one header and one body of the given sizes until killed."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.connect(back)
    socket.send_multipart([b"READY"])
    header, body = b"h" * header_bytes, b"b" * body_bytes
    while True:
        client, *_ = socket.recv_multipart()
        socket.send_multipart([client, header, body])


if __name__ == "__main__":
    if sys.argv[1] == "relay":
        relay(sys.argv[2], sys.argv[3])
    else:
        worker(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
