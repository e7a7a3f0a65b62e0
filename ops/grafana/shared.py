"""What more than one dashboard shows, so that all of them show the same."""

from ops.grafana.panels import BOX, DEVICE, RATE, stat

WAITING = stat(
    "Waiting",
    "Tickets that wait for a decision or a seat; heat without any is somebody else's.",
    "short",
    f"sum(fairlane_requests_waiting{{{BOX}}})",
)
REFUSED = stat(
    "Refused",
    "Requests a second that were told that a queue is full.",
    "reqps",
    f"sum(instance:fairlane_refused:rate5m{{{BOX}}})",
)
SOCKETS = stat(
    "Socket power",
    "The whole sockets, not the GPUs alone.",
    "watt",
    f"sum(fairlane_socket_power_watts{{{BOX}}})",
)
TCTL = f"fairlane_tctl_celsius{{{BOX}}}"
SOCKET = f"fairlane_socket_power_watts{{{BOX}}}"
HELD = f"rate(fairlane_device_busy_seconds_total{{{DEVICE}}}{RATE})"
WAITING_BY_BOX = f"sum by (instance) (fairlane_requests_waiting{{{BOX}}})"
