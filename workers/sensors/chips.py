"""Which chip is which: found by what it says of itself, never by its number.

Rules of this file: numbers of cards and of hwmon directories change from boot to boot and while the box runs,
so everything is looked for anew each second. A chip that does not come back is passed over; only where
nothing else is found does the search itself count as hung.
"""

from collections.abc import Callable, Iterator

from workers.sensors.files import Files
from workers.sensors.raw import Hung, Reason, Unread

CPU_CHIPS = ("k10temp", "zenpower")  # the kernel's driver, and the one that some load in its place
AMD = "0x1002"
STRIX_HALO = "0x1586"
_AMD_NPU = "0x1022"
_HWMON = "sys/class/hwmon"


def cpu(files: Files) -> tuple[str, str]:
    """Return the directory of the processor's own sensor, and the start of its Tctl's names.

    Where there are several, the kernel's driver comes before the other, and one that has the label before
    one that has not.

    Raises:
        Unread: There is none; `wrong chip` where only something else calls a value Tctl.
        Hung: What might be it does not come back.
    """
    known: list[tuple[int, str]] = []
    others: list[str] = []
    fault, is_stuck = Reason.MISSING, False
    for path in files.under(_HWMON, "hwmon"):
        try:
            name = _name(files, path)
        except Hung:
            is_stuck = True
            continue
        if name in CPU_CHIPS:
            known.append((CPU_CHIPS.index(name), path))
        else:
            others.append(path)
    for _, path in sorted(known, key=lambda one: one[0]):
        try:
            return path, labelled(files, path, "temp", "Tctl")
        except Unread as error:
            fault = error.reason
        except Hung:
            is_stuck = True
    if is_stuck:
        raise Hung("cpu")
    if not known and any(_says_tctl(files, path) for path in others):
        fault = Reason.WRONG_CHIP
    raise Unread(fault)


def card(files: Files) -> tuple[str, str]:
    """Return the device directory of the iGPU and its PCI slot; the lowest slot where there are two.

    Raises:
        Unread: There is none; `wrong chip` where there are only others.
        Hung: What might be it does not come back.
    """
    found: list[tuple[str, str]] = []
    others = is_stuck = False
    for path in files.under("sys/class/drm", "card"):  # a name with '-' is a connector
        device = f"{path}/device"
        try:
            ids = files.text(f"{device}/vendor"), files.text(f"{device}/device")
            if ids == (AMD, STRIX_HALO):
                found.append((slot(files, device), device))
            else:
                others = True
        except Unread:
            continue
        except Hung:
            is_stuck = True
    if found:
        lowest, device = min(found)
        return device, lowest
    if is_stuck:
        raise Hung("card")
    raise Unread(Reason.WRONG_CHIP if others else Reason.MISSING)


def card_hwmon(files: Files, device: str) -> str:
    """Return the hwmon directory of a card.

    Raises:
        Unread: It has none of the driver's.
        Hung: What might be it does not come back.
    """
    folder = f"{device}/hwmon"
    return _first(files.under(folder, "hwmon"), lambda path: _name(files, path) == "amdgpu")


def labelled(files: Files, hwmon: str, kind: str, label: str) -> str:
    """Return the start of the names of a channel, such as ".../temp1", found by its label.

    Args:
        files: The tree.
        hwmon: A chip's directory.
        kind: "temp", "power" or "freq".
        label: As the driver writes it.

    Raises:
        Unread: No channel has that label; `unlabelled` where channels of the kind have none at all.
        Hung: What might be it does not come back.
    """
    names = files.names(hwmon)
    channels = {name.partition("_")[0] for name in names if name.startswith(kind)}
    marked = sorted(channel for channel in channels if f"{channel}_label" in names)
    fault, is_stuck = Reason.MISSING, False
    for channel in marked:
        try:
            if files.text(f"{hwmon}/{channel}_label") == label:
                return f"{hwmon}/{channel}"
        except Unread as error:
            fault = error.reason
        except Hung:
            is_stuck = True
    if is_stuck:
        raise Hung("label")
    raise Unread(Reason.UNLABELLED if channels and not marked else fault)


def npu(files: Files) -> str:
    """Return the device directory of the NPU; one of another maker is none.

    Raises:
        Unread: There is none; `wrong chip` where there are only others.
        Hung: What might be it does not come back.
    """
    others = is_stuck = False
    for path in files.under("sys/class/accel", "accel"):
        try:
            if _vendor(files, f"{path}/device") in {_AMD_NPU, ""}:
                return f"{path}/device"
            others = True
        except Hung:
            is_stuck = True
    if is_stuck:
        raise Hung("npu")
    raise Unread(Reason.WRONG_CHIP if others else Reason.MISSING)


def package(files: Files) -> str:
    """Return the RAPL zone of the package; AMD's has Intel's name.

    Raises:
        Unread: There is none.
        Hung: What might be it does not come back.
    """
    zones = files.under("sys/class/powercap", "intel-rapl:")
    return _first(zones, lambda path: _name(files, path).startswith("package-"))


def _first(paths: Iterator[str], fits: Callable[[str], bool]) -> str:
    is_stuck = False
    for path in paths:
        try:
            if fits(path):
                return path
        except Hung:
            is_stuck = True
    if is_stuck:
        raise Hung("search")
    raise Unread(Reason.MISSING)


def _name(files: Files, path: str) -> str:
    try:
        return files.text(f"{path}/name")
    except Unread:
        return ""


def _says_tctl(files: Files, path: str) -> bool:
    try:
        labelled(files, path, "temp", "Tctl")
    except (Unread, Hung):
        return False
    return True


def _vendor(files: Files, device: str) -> str:
    try:
        return files.text(f"{device}/vendor")
    except Unread:
        return ""


def slot(files: Files, device: str) -> str:
    """Return the PCI slot of a device.

    Raises:
        Unread: It has none.
        Hung: It does not come back.
    """
    for line in files.text(f"{device}/uevent").splitlines():
        key, _, value = line.partition("=")
        if key == "PCI_SLOT_NAME":
            return value
    raise Unread(Reason.MISSING)  # a card that cannot be told from another is not read
