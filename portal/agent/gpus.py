"""How many GPUs this machine has, and of which model."""

from dataclasses import dataclass

SIMULATED_GPUS = 8
SIMULATED_MODEL = "simulated"


@dataclass(frozen=True)
class Gpus:
    """The machine's GPUs; `simulated` ones are declared where there is no NVIDIA driver."""

    count: int
    model: str
    simulated: bool


def gpus_find(simulated_gpus: int = SIMULATED_GPUS) -> Gpus:
    """The driver's GPUs, else as many simulated ones as asked for."""
    return gpus_of_driver() or Gpus(simulated_gpus, SIMULATED_MODEL, simulated=True)


def gpus_of_driver() -> Gpus | None:
    """What NVIDIA's driver lists; None without a driver or without a GPU."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        count = int(pynvml.nvmlDeviceGetCount())
        if count == 0:
            return None
        name = pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0))
        return Gpus(count, (name.decode() if isinstance(name, bytes) else name)[:100], simulated=False)
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()
