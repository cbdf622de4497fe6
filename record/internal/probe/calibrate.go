package probe

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// Calibrate measures the cost of a probed call on this machine: a child process calls a
// function that does nothing and is probed like cuLaunchKernel. A program that does more pays
// more, because the probes disturb its caches. Calibrate takes about ten milliseconds and may
// run beside other methods. Its calls are not delivered, and not counted as lost. A call
// that finds the buffers full costs less than one that is recorded: then Calibrate fails.
func (p *Prober) Calibrate() (perCall time.Duration, err error) {
	calls := calibrationCalls(p.layout)
	if calls < 2 {
		return 0, errors.New("the cost of a call is not measured: the buffers are too small")
	}
	perCall, err = p.measureCall(calls)
	if err == nil {
		err = p.calibrated()
	}
	if err != nil {
		return 0, fmt.Errorf("the cost of a call is not measured: %w", err)
	}
	return perCall, nil
}

// measureCall returns the cost of one call. It times rounds of a number of calls, at least two,
// and takes the median round.
func (p *Prober) measureCall(calls uint32) (perCall time.Duration, err error) {
	c, err := startCalibrationChild()
	if err != nil {
		return 0, err
	}
	detach, err := p.attachCalibration(c)
	if err == nil {
		perCall, err = c.measure(calls)
		err = errors.Join(err, detach())
	}
	return perCall, errors.Join(err, c.stop())
}

// calibrated fails when a call of the calibration was not recorded.
func (p *Prober) calibrated() error {
	lost, err := p.losses.sum(bpf.LostCalibration)
	if err == nil && lost.Count > 0 {
		err = errors.New("the buffers were full")
	}
	return err
}

// calibrationCalls is the number of calls in a round. The calls of all rounds fit into a
// quarter of the buffers.
func calibrationCalls(l storeLayout) uint32 {
	const most, bytes = 256, bpf.HeaderSize + 8*bpf.MaxArgs
	return uint32(min(most, l.bytes()/4/bytes/calibrationRounds))
}

// attachCalibration probes the function of the child process.
func (p *Prober) attachCalibration(c *calibrationChild) (detach func() error, err error) {
	cookie, err := calibrationCookie()
	if err != nil {
		return nil, err
	}
	pid, targets := c.cmd.Process.Pid, p.program.maps.targets
	p.events.decoder.ignore(uint32(pid))
	if err := targets.Put(uint32(pid), bpf.ProbesTarget{Range: bpf.TargetCalibration}); err != nil {
		return nil, err
	}
	site := probeSite{cookie: cookie, offset: loopFunction}
	probes, err := attachCalls(p.program.calls, procfs.OpenFile(c.file), []probeSite{site}, pid)
	if err != nil {
		return nil, errors.Join(err, targets.Delete(uint32(pid)))
	}
	return func() error {
		p.background.close(probes)
		return targets.Delete(uint32(pid))
	}, nil
}

// calibrationRounds is the number of rounds of calls that are timed.
const calibrationRounds = 8

// A calibrationChild is the process that makes the calls. Its program is an ELF file of two hundred
// bytes.
type calibrationChild struct {
	file *os.File
	cmd  *exec.Cmd
	to   io.WriteCloser
	from io.ReadCloser
}

func startCalibrationChild() (*calibrationChild, error) {
	file, err := loopFile()
	if err != nil {
		return nil, err
	}
	c := &calibrationChild{file: file, cmd: exec.Command(procfs.OpenFile(file))}
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
func (c *calibrationChild) stop() error {
	return errors.Join(c.to.Close(), c.cmd.Wait(), c.file.Close())
}

// measure compares the median round of many calls with the median round of one call. The
// cheapest round will not do: the kernel's accounting can miss a whole round.
func (c *calibrationChild) measure(calls uint32) (time.Duration, error) {
	var many, one []time.Duration
	for range calibrationRounds {
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
func (c *calibrationChild) round(n uint32) (time.Duration, error) {
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
func (c *calibrationChild) processorTime() (time.Duration, error) {
	const sched = 2
	var t unix.Timespec
	err := unix.ClockGettime(int32(^c.cmd.Process.Pid<<3|sched), &t)
	return time.Duration(t.Nano()), err
}

// loopStart is the file offset of loopCode: behind the ELF header and one program header.
const loopStart = 64 + 56

// loopFile makes an ELF file in memory that runs loopCode.
func loopFile() (*os.File, error) {
	const name, executable = "cudatrace-calibration", 0x10 // MFD_EXEC, Linux 6.3
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|executable)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(loopELF()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func loopELF() []byte {
	const base = 0x400000
	header := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(host.Machine()), Version: uint32(elf.EV_CURRENT),
		Entry: base + loopStart, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64),
		byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	size := uint64(loopStart + len(loopCode))
	segment := elf.Prog64{
		Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Paddr: base,
		Filesz: size, Memsz: size, Align: 0x10000,
	}
	b := make([]byte, 0, size)
	b = appendStruct(appendStruct(b, &header), &segment)
	return append(b, loopCode...)
}

func appendStruct(b []byte, s any) []byte {
	b, err := binary.Append(b, binary.LittleEndian, s)
	if err != nil {
		panic(err) // the structs of debug/elf have a fixed size
	}
	return b
}
