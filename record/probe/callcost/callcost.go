// Package callcost measures the cost of a probed call on this machine. Input: a function that
// attaches the probe. Output: a duration. A child process, whose program is an ELF file of two
// hundred bytes, calls the probed function, which does nothing.
package callcost

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"time"

	"github.com/cudatrace/cudatrace/record/procfs"
)

// Rounds is the number of rounds of calls that Measure times.
const Rounds = 8

// An Attach probes the function at an offset of a file in a process. It returns a function that
// removes the probe.
type Attach func(path string, offset uint64, pid int) (detach func() error, err error)

// Measure returns the cost of one call. It times rounds of a number of calls, at least two, and
// takes the fastest round. It takes about ten milliseconds.
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

// measure compares the fastest round of many calls with the fastest round of one call.
func (c *child) measure(calls uint32) (time.Duration, error) {
	many, one := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for range Rounds {
		for n, fastest := range map[uint32]*time.Duration{1: &one, calls: &many} {
			took, err := c.round(n)
			if err != nil {
				return 0, err
			}
			*fastest = min(*fastest, took)
		}
	}
	return max(many-one, 0) / time.Duration(calls-1), nil
}

// round makes the child call the function n times. It returns the time taken.
func (c *child) round(n uint32) (time.Duration, error) {
	var text [4]byte
	binary.NativeEndian.PutUint32(text[:], n)
	began := time.Now()
	if _, err := c.to.Write(text[:]); err != nil {
		return 0, err
	}
	_, err := io.ReadFull(c.from, text[:])
	return time.Since(began), err
}
