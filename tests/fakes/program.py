"""What `forking.PROGRAM` names."""

import sys

if __name__ == "__main__":
    exec(compile(sys.argv.pop(1), "<program>", "exec"), {"__name__": "__main__"})  # noqa: S102 -- of a test
