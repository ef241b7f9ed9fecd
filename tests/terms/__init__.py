import pytest

pytestmark = pytest.mark.fast
