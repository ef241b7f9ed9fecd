"""Works the queue: lanes, each with one worker process."""
