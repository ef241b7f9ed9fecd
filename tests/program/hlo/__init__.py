import pytest

pytestmark = [pytest.mark.fast, pytest.mark.newer]
