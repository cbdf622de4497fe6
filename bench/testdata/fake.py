"""A program that speaks the protocol of loops.cu and does nothing, or misbehaves: fake.py [MODE] CONTROL REPORT.

MODE: die (in a loop), hang (in a loop), code (ends with 3), failed (says so), silent (never says that it is there).
"""
import os
import sys
import time


def main():
    mode = sys.argv[1] if len(sys.argv) > 3 else ""
    control, report = open(sys.argv[-2]), open(sys.argv[-1], "w")

    def say(text):
        print(text, file=report, flush=True)

    if mode == "silent":
        time.sleep(60)
    say(f"ready pid={os.getpid()} t={time.monotonic_ns()}")
    for line in control:
        words = line.split()
        if words[0] == "init":
            say(f"init first_ns=1000000 t={time.monotonic_ns()}")
        elif words[0] == "run":
            if mode == "die":
                print("out of luck", file=sys.stderr)
                os._exit(7)
            if mode == "hang":
                time.sleep(60)
            if mode == "failed":
                say("failed cudaLaunchKernel: cudaErrorUnknown")
            say(f"part name={words[1]} unit=100 ns={int(words[2]) * 1000} hwm_kb=1000")
        elif words[0] == "quit":
            say(f"bye t={time.monotonic_ns()}")
            sys.exit(3 if mode == "code" else 0)


main()
