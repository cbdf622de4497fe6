// Package callcost measures the cost of a probed call on this machine. Input: a function that
// attaches the probe. Output: a duration. A child process, whose program is an ELF file of two
// hundred bytes, calls the probed function, which does nothing.
package callcost

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/procfs"
)

// Rounds is the number of rounds of calls that Measure times.
const Rounds = 8

// An Attach probes the function at an offset of a file in a process. It returns a function that
// removes the probe.
type Attach func(path string, offset uint64, pid int) (detach func() error, err error)

// Measure returns the cost of one call. It times rounds of a number of calls, at least two, and
// takes the median round. It takes about ten milliseconds.
func Measure(calls uint32, attach Attach) (perCall time.Duration, err error) {
	c, err := start()
	if err != nil {
		return 0, err
	}
	detach, err := attach(procfs.OpenFile(c.file), loopFunction, c.cmd.Process.Pid)
	if err == nil {
		perCall, err = c.measure(calls)
		err = errors.Join(err, detach())
	}
	return perCall, errors.Join(err, c.stop())
}

// A child is the process that makes the calls.
type child struct {
	file *os.File
	cmd  *exec.Cmd
	to   io.WriteCloser
	from io.ReadCloser
}

func start() (*child, error) {
	file, err := loopFile()
	if err != nil {
		return nil, err
	}
	c := &child{file: file, cmd: exec.Command(procfs.OpenFile(file))}
	c.to, err = c.cmd.StdinPipe()
	if err == nil {
		c.from, err = c.cmd.StdoutPipe()
	}
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return c, nil
}

// stop ends the child, by closing its input.
func (c *child) stop() error {
	return errors.Join(c.to.Close(), c.cmd.Wait(), c.file.Close())
}

// measure compares the median round of many calls with the median round of one call. The
// cheapest round will not do: the kernel's accounting can miss a whole round.
func (c *child) measure(calls uint32) (time.Duration, error) {
	var many, one []time.Duration
	for range Rounds {
		for n, all := range map[uint32]*[]time.Duration{1: &one, calls: &many} {
			took, err := c.round(n)
			if err != nil {
				return 0, err
			}
			*all = append(*all, took)
		}
	}
	return max(median(many)-median(one), 0) / time.Duration(calls-1), nil
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// round makes the child call the function n times. It returns the processor time taken: on a busy
// machine the child waits for a processor for longer than its calls take.
func (c *child) round(n uint32) (time.Duration, error) {
	var text [4]byte
	binary.NativeEndian.PutUint32(text[:], n)
	began, err := c.processorTime()
	if err != nil {
		return 0, err
	}
	if _, err := c.to.Write(text[:]); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(c.from, text[:]); err != nil {
		return 0, err
	}
	ended, err := c.processorTime()
	return ended - began, err
}

// processorTime returns the processor time that the child has used. The clock's number is made of
// its PID and CPUCLOCK_SCHED, as clock_getcpuclockid(3) makes it.
func (c *child) processorTime() (time.Duration, error) {
	const sched = 2
	var t unix.Timespec
	err := unix.ClockGettime(int32(^c.cmd.Process.Pid<<3|sched), &t)
	return time.Duration(t.Nano()), err
}
