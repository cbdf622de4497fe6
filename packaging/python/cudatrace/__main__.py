"""python3 -m cudatrace: the program, with the same arguments."""
import os
import sys

from . import program

if __name__ == "__main__":
    path = program()
    os.execv(path, [path, *sys.argv[1:]])
