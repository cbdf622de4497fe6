package probe

import (
	"debug/elf"
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/must"
)

func TestCalibrate(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{Paused: true, CaptureRange: true}), startTarget(t, "driver")
	cost := must.Get(p.Calibrate())(t)
	// No machine runs two traps faster.
	if cost < 100*time.Nanosecond {
		t.Errorf("a call costs %v", cost)
	}
	attach(t, p, target)
	r := finish(t, p)
	if len(r.calls)+len(r.threads) > 0 {
		t.Errorf("delivered: %+v %+v", r.calls, r.threads)
	}
	if lost, err := p.Lost(); err != nil || len(lost) > 0 {
		t.Errorf("lost %+v (%v)", lost, err)
	}
	p.background.closing.Wait()
}

func TestCalibrateWithSmallRings(t *testing.T) {
	t.Parallel()
	p := open(t, Options{BufferBytes: 1})
	if _, err := p.Calibrate(); err == nil || !strings.Contains(err.Error(), "too small") {
		t.Errorf("error %v", err)
	}
}

// The calls of a calibration that meets full buffers are no calls of the program.
func TestCalibrateWithFullBuffers(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{BufferBytes: 64 << 10}), startTarget(t, "driver")
	attach(t, p, target)
	target.run("launches", 10_000)
	if lost, err := p.LostSince(); err != nil || len(lost) != 1 {
		t.Fatalf("lost %+v (%v)", lost, err)
	}
	if _, err := p.Calibrate(); err == nil || !strings.Contains(err.Error(), "were full") {
		t.Errorf("error %v", err)
	}
	if lost, err := p.LostSince(); err != nil || len(lost) != 0 {
		t.Errorf("lost %+v (%v)", lost, err)
	}
	p.background.closing.Wait()
}

// The child makes rounds of calls. The function that is probed has the code at the end of loopCode.
func TestCalibrationChild(t *testing.T) {
	c := must.Get(startCalibrationChild())(t)
	f := must.Get(elf.NewFile(c.file))(t)
	if end := f.Progs[0].Filesz; loopFunction < loopStart || loopFunction >= end || f.Progs[0].Flags&elf.PF_X == 0 {
		t.Errorf("the function is at %d, the code ends at %d", loopFunction, end)
	}
	if _, err := c.measure(16); err != nil {
		t.Error(err)
	}
	if err := c.stop(); err != nil {
		t.Error(err)
	}
}
