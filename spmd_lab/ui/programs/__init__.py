"""The Programs screen: a program that somebody exported, what it holds, and what would be better."""
