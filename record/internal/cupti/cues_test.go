package cupti

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
)

// The words of testdata/fake/cues.h.
const (
	cueTime = iota
	cueHang
	cueFlushesBegun
	cueFlushesDone
	cueReadyWaits
	cueHeld
	cueCount
)

// cues are what a test and a program tell each other while the program runs.
type cues struct {
	t    *testing.T
	file *os.File
}

func newCues(t *testing.T) *cues {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "cues"))
	if err == nil {
		err = f.Truncate(8 * cueCount)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &cues{t, f}
}

// env adds what gives a program the cues to its environment.
func (c *cues) env(env ...string) []string {
	return append(preloaded(c.t, env, "cues.so"), "FAKE_CUES="+c.file.Name())
}

func (c *cues) set(cue int, value uint64) {
	c.t.Helper()
	must.Get(c.file.WriteAt(binary.NativeEndian.AppendUint64(nil, value), int64(8*cue)))(c.t)
}

func (c *cues) get(cue int) uint64 {
	c.t.Helper()
	var b [8]byte
	must.Get(c.file.ReadAt(b[:], int64(8*cue)))(c.t)
	return binary.NativeEndian.Uint64(b[:])
}

// until waits until the program has set a cue to at least a value.
func (c *cues) until(cue int, least uint64) {
	c.t.Helper()
	must.Wait(c.t, func() bool { return c.get(cue) >= least }, func() string {
		return fmt.Sprintf("cue %d is %d", cue, c.get(cue))
	})
}

// stopClock has the injected library's clock stand still.
func (c *cues) stopClock() {
	c.t.Helper()
	c.set(cueTime, monotonic())
}

// advance moves a clock that stands still.
func (c *cues) advance(d time.Duration) {
	c.t.Helper()
	c.set(cueTime, c.get(cueTime)+uint64(d))
}

// preloaded adds a library of testdata/fake to those that are preloaded.
func preloaded(t *testing.T, env []string, library string) []string {
	t.Helper()
	dir := must.Get(fake())(t)
	preload := filepath.Join(dir, library)
	for _, e := range env {
		if before, ok := strings.CutPrefix(e, "LD_PRELOAD="); ok {
			preload = before + ":" + preload
		}
	}
	return append(env[:len(env):len(env)], "LD_PRELOAD="+preload)
}

// waitsAgain waits until a process's main thread has taken a signal, which it takes while
// it waits for a handover, and waits again.
func waitsAgain(t *testing.T, pid int, signal unix.Signal) {
	t.Helper()
	number := fmt.Sprint(unix.SYS_FUTEX)
	waits := func() bool {
		for _, set := range []string{"SigPnd", "ShdPnd"} {
			for _, pending := range signals(t, pid, set) {
				if pending == int(signal) {
					return false
				}
			}
		}
		b := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid)))(t)
		in, _, _ := strings.Cut(string(b), " ")
		return in == number
	}
	must.Wait(t, waits, func() string { return "the program does not wait" })
}
