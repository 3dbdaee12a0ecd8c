"""What is this bench really: identification and compensation, through the bench interface alone."""

from typing import TYPE_CHECKING

from devices.lazy import lazy

if TYPE_CHECKING:
    from calibration.calibrated import CalibratedBench
    from calibration.chain import calibrate
    from calibration.corrections import Corrections
    from calibration.file import Calibration
    from calibration.findings import CalibrationError

__getattr__ = lazy(
    __name__,
    {
        "calibration.calibrated": ("CalibratedBench",),
        "calibration.chain": ("calibrate",),
        "calibration.corrections": ("Corrections",),
        "calibration.file": ("Calibration",),
        "calibration.findings": ("CalibrationError",),
    },
)

__all__ = ["CalibratedBench", "Calibration", "CalibrationError", "Corrections", "calibrate"]
