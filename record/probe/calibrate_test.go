package probe

import (
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/probe/uprobe"
)

func TestCalibrate(t *testing.T) {
	eachMode(t, func(t *testing.T, m uprobe.Mode) {
		p, target := open(t, Options{Mode: m, Paused: true, CaptureRange: m == uprobe.Multi}), startTarget(t, "driver")
		cost, err := p.Calibrate()
		if err != nil {
			t.Fatal(err)
		}
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
		p.processes.background.closing.Wait()
	})
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
	eachMode(t, func(t *testing.T, m uprobe.Mode) {
		p, target := open(t, Options{Mode: m, BufferBytes: 64 << 10}), startTarget(t, "driver")
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
		p.processes.background.closing.Wait()
	})
}

func BenchmarkCalibrate(b *testing.B) {
	p := open(b, Options{})
	var cost time.Duration
	for b.Loop() {
		var err error
		if cost, err = p.Calibrate(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cost.Nanoseconds()), "ns-measured")
	p.processes.background.closing.Wait()
}
