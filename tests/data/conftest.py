"""Real data, where a folder `shared/data` lies beside the repository."""

from pathlib import Path

import pytest

REAL = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(scope="session")
def real():
    """The path of a real file, or a visible skip."""

    def find(name):
        if not (REAL / name).is_file():
            pytest.skip(f"{name} is not in shared/data beside the repository (research use only, not shipped)")
        return REAL / name

    return find
