package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

func TestStoreLayout(t *testing.T) {
	for _, c := range []struct {
		bytes, threads       int
		chunks, queue, slots uint32
	}{
		{64 << 20, 4096, 16384, 16384, 4096},
		{100 << 20, 4097, 25600, 32768, 8192},
		{12 << 10, 3, 3, 4, 4},
		{1, 1, 1, 1, 1},
	} {
		if chunks, queue, slots := storeLayout(c.bytes, c.threads); chunks != c.chunks || queue != c.queue || slots != c.slots {
			t.Errorf("%d bytes, %d threads: %d chunks, %d in the queue, %d slots", c.bytes, c.threads, chunks, queue, slots)
		}
	}
	for _, c := range [][2]int{{1, 64 << 10}, {64 << 20, 4 << 20}, {1 << 40, 64 << 20}} {
		if size := symbolRingSize(c[0]); size != c[1] {
			t.Errorf("of %d bytes, names take %d", c[0], size)
		}
	}
}

func TestNextPause(t *testing.T) {
	for _, c := range []struct {
		pause time.Duration
		fill  float64
		want  time.Duration
	}{
		{time.Millisecond, 0, 2 * time.Millisecond},
		{maxPause, 0, maxPause},
		{40 * time.Millisecond, 0.05, 40 * time.Millisecond},
		{40 * time.Millisecond, 0.2, 10 * time.Millisecond},
		{time.Millisecond, 0.2, minPause},
		{40 * time.Millisecond, 0.9, minPause},
	} {
		if got := nextPause(c.pause, c.fill); got != c.want {
			t.Errorf("after %v and %.2f full: %v", c.pause, c.fill, got)
		}
	}
}

// fakeRing is a ring buffer in plain memory.
func fakeRing(size int, records ...[]byte) *ring {
	r := &ring{consumer: make([]byte, 8), producer: make([]byte, 8), data: make([]byte, 2*size), mask: uint64(size - 1)}
	for _, b := range records {
		r.put(uint32(len(b)), b)
	}
	return r
}

func (r *ring) put(length uint32, b []byte) {
	at := binary.LittleEndian.Uint64(r.producer)
	record := binary.LittleEndian.AppendUint32(nil, length)
	record = append(append(record, 0, 0, 0, 0), b...)
	for i, c := range record {
		place := (at + uint64(i)) & r.mask
		r.data[place], r.data[place+r.mask+1] = c, c
	}
	binary.LittleEndian.PutUint64(r.producer, at+uint64(len(record)+7)&^7)
}

func (r *ring) texts(t *testing.T) []string {
	t.Helper()
	var got []string
	if _, _, err := r.drain(func(b []byte) error { got = append(got, string(b)); return nil }); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestRing(t *testing.T) {
	r := fakeRing(64, []byte("one"), []byte("eleven char"))
	if diff := cmp.Diff([]string{"one", "eleven char"}, r.texts(t)); diff != "" {
		t.Error(diff)
	}
	if got := r.texts(t); got != nil {
		t.Errorf("again: %q", got)
	}
	// The next ones wrap around, one is dropped by its writer, one is being written.
	r.put(20, []byte("twenty characters ab"))
	r.put(3|ringDiscard, []byte("bad"))
	r.put(2|ringBusy, []byte("no"))
	if diff := cmp.Diff([]string{"twenty characters ab"}, r.texts(t)); diff != "" {
		t.Error(diff)
	}
	if at, end := binary.LittleEndian.Uint64(r.consumer), binary.LittleEndian.Uint64(r.producer); end-at != 16 {
		t.Errorf("the reader stands at %d of %d", at, end)
	}
}

func TestDecode(t *testing.T) {
	event := make([]byte, bpf.HeaderSize+16)
	le := binary.LittleEndian
	le.PutUint64(event, 1000)
	le.PutUint64(event[8:], 1500)
	le.PutUint32(event[16:], 7)
	le.PutUint32(event[20:], 8)
	le.PutUint16(event[24:], 300)
	event[26] = 2
	le.PutUint32(event[28:], 0xffffffff)
	le.PutUint64(event[32:], 11)
	le.PutUint64(event[40:], 12)
	var p Prober
	sink := &discard{}
	calls, err := p.deliver(event, &discard{})
	want := tracelog.Call{PID: 7, TID: 8, Func: 300, Enter: 1000, Dur: 500, Ret: -1, NArgs: 2, Args: [12]uint64{11, 12}}
	if diff := cmp.Diff(want, p.call); calls != 1 || err != nil || diff != "" {
		t.Errorf("%v %v %s", calls, err, diff)
	}
	if n := testing.AllocsPerRun(100, func() { p.deliver(event, sink) }); n != 0 {
		t.Errorf("%v allocations for an event", n)
	}
	event[27] = bpf.FlagThread
	copy(event[32:], "sixteen letters!")
	calls, err = p.deliver(event, &discard{})
	if diff := cmp.Diff(tracelog.Thread{PID: 7, TID: 8, Name: "sixteen letters!"}, p.thread); calls != 0 || err != nil || diff != "" {
		t.Errorf("%v %v %s", calls, err, diff)
	}
	for cut := range event {
		if _, err := p.deliver(event[:cut], &discard{}); err == nil {
			t.Errorf("an event cut to %d bytes is taken", cut)
		}
	}
}

func TestParseMode(t *testing.T) {
	for _, m := range []Mode{ModeAuto, ModeSession, ModeMulti, ModeSingle} {
		if got, err := ParseMode(m.String()); got != m || err != nil {
			t.Errorf("%v: %v, %v", m, got, err)
		}
	}
	if _, err := ParseMode("magic"); err == nil || !strings.Contains(err.Error(), "auto, session, multi, single") {
		t.Errorf("error %v", err)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{RingBytes: -1}, {MaxThreads: -1}, {Functions: []*cudaapi.Function{{ID: 5000}}}} {
		if _, err := Open(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// Without root, opening says which capabilities are missing.
func TestWithoutRights(t *testing.T) {
	const child = "CUDATRACE_TEST_WITHOUT_RIGHTS"
	if os.Getenv(child) != "" {
		_, err := Open(Options{})
		var missing *PermissionError
		if !errors.As(err, &missing) || len(missing.Missing) != 2 {
			t.Errorf("error %v", err)
		}
		fmt.Println("says:", err)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to give it up")
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd := exec.Command("/proc/self/fd/3", "-test.v", "-test.run", "^TestWithoutRights$")
	cmd.ExtraFiles = []*os.File{self}
	cmd.Env, cmd.Dir = append(os.Environ(), child+"=1"), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "says: no rights for eBPF probes: CAP_BPF and CAP_PERFMON missing (run with sudo") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{loadError(ModeAuto, unix.ENOMEM), "no memory for the eBPF maps"},
		{loadError(ModeSession, unix.EINVAL), "Linux 6.13 or newer"},
		{loadError(ModeAuto, unix.EINVAL), oldestKernel + " or newer"},
		{&PermissionError{}, "start the container with --privileged"},
	} {
		if !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%q lacks %q", c.err, c.want)
		}
	}
}
