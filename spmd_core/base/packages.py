"""Which packages are installed, without importing them."""

from importlib.metadata import PackageNotFoundError, version


def package_version(package: str) -> str | None:
    """The version of a package as it is installed now; None where it is not."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
