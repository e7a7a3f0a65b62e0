"""The closed vocabularies that explain a placement.

Header, body, log, metric and bus message all spell these values and no others.
"""

from enum import StrEnum


class Why(StrEnum):
    """Why a request did not land where its class would put it."""

    GPU_BUSY = "gpu_busy"
    GPU_HOT = "gpu_hot"
    TEMPLATE_MISMATCH = "template_mismatch"
    SCORER_DOWN = "scorer_down"
    NPU_QUARANTINED = "npu_quarantined"


class Reason(StrEnum):
    """Why an answer is degraded."""

    PULL_TIMEOUT = "pull_timeout"
    PULL_FAILED = "pull_failed"
    LOAD_FAILED = "load_failed"


class Suppressed(StrEnum):
    """Why an on_busy rule did not fire although its load or heat condition may have held."""

    WARMUP = "warmup"
    NPU_UNAVAILABLE = "npu_unavailable"
    NPU_QUARANTINED = "npu_quarantined"
    NPU_CANARY = "npu_canary"
    SENSOR_UNKNOWN = "sensor_unknown"
    CAPABILITY = "capability"
    SLOWER = "slower"
    TOO_LONG = "too_long"
