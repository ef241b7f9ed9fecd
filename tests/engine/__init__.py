import pytest

pytestmark = pytest.mark.newer
