"""What a program requests by Shardy's propagation alone, without a compile."""

__all__ = ["requested"]
