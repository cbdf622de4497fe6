package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"time"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

const (
	// calibrationCookie is that of the function that Calibrate probes.
	calibrationCookie = watchCookie - 1
	calibrationRounds = 8
	calibrationCalls  = 256 // in a round
)

// Calibrate measures what a probed call costs a program on this machine, as it is now:
// a child of ours, an ELF file of two hundred bytes, calls a function that does nothing
// but is probed like cuLaunchKernel. It is the fastest of several rounds, and less than
// a program with much else to do pays, whose caches the probes disturb. It takes about
// ten milliseconds, and can run beside the rest. Its calls are not delivered.
func (p *Prober) Calibrate() (perCall time.Duration, err error) {
	calls := p.calibrationCalls()
	if calls < 2 {
		return 0, errors.New("the cost of a call is not measured: the buffers are too small")
	}
	l, err := startLoop()
	if err != nil {
		return 0, fmt.Errorf("the cost of a call is not measured: %w", err)
	}
	perCall, err = p.calibrate(l, calls)
	if err = errors.Join(err, l.stop()); err != nil {
		return 0, fmt.Errorf("the cost of a call is not measured: %w", err)
	}
	return perCall, nil
}

// calibrationCalls keeps all rounds within a quarter of the buffers.
func (p *Prober) calibrationCalls() uint32 {
	p.draining.Lock()
	defer p.draining.Unlock()
	const bytes = bpf.HeaderSize + 8*bpf.MaxArgs
	if p.store == nil {
		return 0
	}
	size := len(p.store.chunks) * int(chunkBytes)
	return uint32(min(calibrationCalls, size/4/bytes/calibrationRounds))
}

func (p *Prober) calibrate(l *loop, calls uint32) (time.Duration, error) {
	recipe, err := compileRecipe(cudaapi.ByName("cuLaunchKernel"))
	if err != nil {
		return 0, err
	}
	recipe.Always = 1
	how, ok := compilePlain(calibrationCookie, recipe)
	if !ok {
		return 0, errors.New("a launch is no plain function")
	}
	pid := l.cmd.Process.Pid
	p.calibrating.Store(uint32(pid))
	if err := p.maps.Targets.Put(uint32(pid), uint32(0)); err != nil {
		return 0, err
	}
	links, err := p.attachSites(pathOf(l.file), []site{{cookie: how.cookie, offset: loopFunction}}, pid)
	if err == nil {
		defer func() { p.closing.Go(func() { p.closeFailed(inOrder(links).Close()) }) }()
	}
	var cost time.Duration
	if err == nil {
		cost, err = l.measure(calls)
	}
	return cost, errors.Join(err, p.maps.Targets.Delete(uint32(pid)))
}

// A loop is the child process that calls the function as often as it is told.
type loop struct {
	file *os.File
	cmd  *exec.Cmd
	to   io.WriteCloser
	from io.ReadCloser
}

func startLoop() (*loop, error) {
	file, err := loopFile()
	if err != nil {
		return nil, err
	}
	l := &loop{file: file, cmd: exec.Command(pathOf(file))}
	l.to, err = l.cmd.StdinPipe()
	if err == nil {
		l.from, err = l.cmd.StdoutPipe()
	}
	if err == nil {
		err = l.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return l, nil
}

// stop ends the child, which does so when there is nothing to read any more.
func (l *loop) stop() error {
	return errors.Join(l.to.Close(), l.cmd.Wait(), l.file.Close())
}

// measure compares the fastest of several rounds with many calls and with one.
func (l *loop) measure(calls uint32) (time.Duration, error) {
	many, one := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for range calibrationRounds {
		for n, fastest := range map[uint32]*time.Duration{1: &one, calls: &many} {
			took, err := l.round(n)
			if err != nil {
				return 0, err
			}
			*fastest = min(*fastest, took)
		}
	}
	return max(many-one, 0) / time.Duration(calls-1), nil
}

// round has the child call the function n times.
func (l *loop) round(n uint32) (time.Duration, error) {
	var text [4]byte
	binary.NativeEndian.PutUint32(text[:], n)
	began := time.Now()
	if _, err := l.to.Write(text[:]); err != nil {
		return 0, err
	}
	_, err := io.ReadFull(l.from, text[:])
	return time.Since(began), err
}
