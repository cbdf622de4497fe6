package gpumetrics

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/metric"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// used is our processor time in ns.
func used(t *testing.T) uint64 {
	t.Helper()
	var u unix.Rusage
	must.Do(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return uint64(u.Utime.Nano() + u.Stime.Nano())
}

// burn takes processor time and touches new pages.
func burn(t *testing.T, ns uint64) {
	t.Helper()
	for began := used(t); used(t) < began+ns; {
	}
	b, err := unix.Mmap(-1, 0, burntPages*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Madvise(b, unix.MADV_NOHUGEPAGE); err != nil {
		t.Log(err) // the kernel has no huge pages
	}
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
	must.Do(t, unix.Munmap(b))
}

const burntPages = 1000

// The samples of a process add up to the processor time and the page faults that it had. A process that has
// ended, and a PID that is there twice, change nothing.
func TestHostSample(t *testing.T) {
	var log bytes.Buffer
	w := must.Get(tracelog.NewWriter(&log, tracelog.Options{}))(t)
	ended := exec.Command("true")
	must.Do(t, ended.Run())
	self := uint32(os.Getpid())
	live := []uint32{uint32(ended.Process.Pid), self, self}
	set := uint32(0)
	s := &hostSampler{options: Options{Log: w, NextSet: func() uint32 { set++; return set }, Live: func() []uint32 { return live }}, processes: map[uint32]*hostProcess{}}
	s.sample()
	const each = 20e6
	began := used(t)
	for range 3 {
		burn(t, each)
		s.sample()
	}
	took := used(t) - began
	live = nil
	s.sample()
	if len(s.processes) != 0 {
		t.Error("a process that has ended is still sampled")
	}
	c := closed(t, w, &log)
	all, samples := c.sets, c.samples[1]
	if len(all) != 1 || len(c.samples) != 1 || len(samples) != 3 || all[0].PID != self || all[0].Source != uint32(metric.Host) || samples[0].PID != self {
		t.Fatalf("%d sets, samples %v", len(all), samples)
	}
	var sums [4]float64
	for i, sample := range samples {
		if i > 0 && sample.Start != samples[i-1].Start+samples[i-1].Dur {
			t.Errorf("sample %d begins at %d", i, sample.Start)
		}
		for n := range sums {
			v, ok := all[0].Metrics[n].Value(sample.Values[n])
			if !ok {
				t.Errorf("sample %d lacks %s", i, all[0].Metrics[n].Name)
			}
			sums[n] += v * float64(sample.Dur)
		}
	}
	if cpu := sums[0] / 100; cpu < 3*each || cpu > 1.01*float64(took)+each {
		t.Errorf("processor time is %.0f ns of at least %.0f and at most %d", cpu, 3*each, took)
	}
	if faults := sums[2] / 1e9; faults < 3*burntPages*0.99 {
		t.Errorf("%.0f page faults, want %d or more", faults, 3*burntPages)
	}
}

// Of more threads than are watched, the one that ran is.
func TestHostThreads(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var idle sync.WaitGroup
	stop := make(chan bool)
	for range 2 * threadsMax {
		started := make(chan bool)
		idle.Go(func() {
			runtime.LockOSThread()
			started <- true
			<-stop
		})
		<-started
	}
	defer idle.Wait()
	defer close(stop)
	p := &hostProcess{pid: uint32(os.Getpid())}
	p.choose()
	burn(t, 50e6)
	p.choose()
	own := uint32(unix.Gettid())
	if len(p.threads) != threadsMax || len(p.ran) <= threadsMax || !slices.ContainsFunc(p.threads, func(t *hostThread) bool { return t.tid == own }) {
		t.Errorf("%d threads of %d are watched, without %d", len(p.threads), len(p.ran), own)
	}
}

// Sampling goes on by itself, until its end.
func TestHostSampler(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := must.Get(tracelog.NewWriter(&log, tracelog.Options{}))(t)
	looks := make(chan bool, 100)
	s := startHost(Options{Log: w, NextSet: func() uint32 { return 1 }, Live: func() []uint32 {
		looks <- true
		return []uint32{uint32(os.Getpid())}
	}})
	for range 3 {
		select {
		case <-looks:
		case <-time.After(time.Minute):
			t.Fatal("nothing is sampled")
		}
	}
	s.end()
	if samples := closed(t, w, &log).samples[1]; len(samples) < 2 {
		t.Errorf("%d samples", len(samples))
	}
}
