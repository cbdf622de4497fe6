package cupti

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
)

// A memoryPeer is the other side of a sharedMemory, as inject/link.c has it.
type memoryPeer struct {
	memory, recorder []byte
}

func testHub(t testing.TB) *hub {
	t.Helper()
	h := must.Get(newHub())(t)
	t.Cleanup(h.close)
	return h
}

func mapAll(t testing.TB, fd, size int) []byte {
	t.Helper()
	b := must.Get(unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED))(t)
	t.Cleanup(func() { unix.Munmap(b) })
	return b
}

func newProcess(t testing.TB, h *hub) (*sharedMemory, *memoryPeer) {
	t.Helper()
	m := must.Get(h.newMemory())(t)
	t.Cleanup(m.close)
	fds := m.descriptors()
	return m, &memoryPeer{mapAll(t, fds[0], sharedSize), mapAll(t, fds[1], recorderSize)}
}

func (p *memoryPeer) word(at int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&p.memory[at]))
}

func (p *memoryPeer) position(at int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&p.memory[at]))
}

// write writes some of b and returns how much.
func (p *memoryPeer) write(b []byte) int {
	written := p.position(sharedOutAt).Load()
	n := min(len(b), outSize-int(written-p.position(sharedOutAt+ringReadAt).Load()))
	ring := p.memory[sharedOutDataAt:]
	first := copy(ring[written%outSize:], b[:n])
	copy(ring, b[first:n])
	if n == 0 {
		return 0
	}
	p.position(sharedOutAt).Add(uint64(n))
	asleep := (*atomic.Uint32)(unsafe.Pointer(&p.recorder[recorderAsleepAt]))
	if asleep.Swap(0) != 0 {
		futexWake(asleep)
	}
	return n
}

// writeAll waits for room.
func (p *memoryPeer) writeAll(b []byte) {
	for {
		b = b[p.write(b):]
		if len(b) == 0 {
			return
		}
		waits := p.word(sharedOutAt + ringWaitsAt)
		waits.Store(1)
		if p.position(sharedOutAt).Load()-p.position(sharedOutAt+ringReadAt).Load() == outSize {
			futexWait(waits, 1, time.Second)
		}
	}
}

func (p *memoryPeer) end() {
	p.word(sharedClosedAt).Store(1)
}

// TestStream writes pieces of all sizes: they are read in order, up to the end.
func TestStream(t *testing.T) {
	t.Parallel()
	h := testHub(t)
	for range 20 {
		m, p := newProcess(t, h)
		random := rand.New(rand.NewPCG(1, 2))
		want := make([]byte, 1<<20)
		for i := range want {
			want[i] = byte(random.Uint32())
		}
		go func() {
			for rest := want; len(rest) > 0; {
				n := min(len(rest), 1+random.IntN(200_000))
				p.writeAll(rest[:n])
				rest = rest[n:]
			}
			p.end()
		}()
		got, err := io.ReadAll(m)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes of %d arrived, %v", len(got), len(want), err)
		}
	}
}

// TestEnds has a stream end in each way. What was written before is read.
func TestEnds(t *testing.T) {
	t.Parallel()
	h := testHub(t)
	for name, end := range map[string]func(*sharedMemory, *memoryPeer){
		"closed":      func(_ *sharedMemory, p *memoryPeer) { p.end() },
		"sender-died": func(_ *sharedMemory, p *memoryPeer) { p.word(sharedSenderAt).Store(died | 7) },
		"hung-up":     func(m *sharedMemory, _ *memoryPeer) { m.end() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, p := newProcess(t, h)
			p.writeAll([]byte("last words"))
			end(m, p)
			if got, err := io.ReadAll(m); err != nil || string(got) != "last words" {
				t.Errorf("got %q, %v", got, err)
			}
			m2, p2 := newProcess(t, h)
			go func() { end(m2, p2) }()
			if got, err := io.ReadAll(m2); err != nil || len(got) != 0 {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// TestProcessEnds watches a process that ends, with a descriptor and without.
func TestProcessEnds(t *testing.T) {
	t.Parallel()
	h := testHub(t)
	for _, looks := range []bool{false, true} {
		m, _ := newProcess(t, h)
		cmd := exec.Command("cat")
		input, err := cmd.StdinPipe()
		if err != nil || cmd.Start() != nil {
			t.Fatal("cat does not start")
		}
		if looks {
			m.pid.Store(int32(cmd.Process.Pid))
		} else {
			m.watch(cmd.Process.Pid)
		}
		input.Close()
		_ = cmd.Wait() // the exit code does not matter
		if n, err := m.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("got %d, %v", n, err)
		}
	}
}

// TestNonsense has a process write positions that cannot be.
func TestNonsense(t *testing.T) {
	t.Parallel()
	h := testHub(t)
	for _, position := range []uint64{outSize + 1, 1 << 63, 1<<64 - outSize} {
		m, p := newProcess(t, h)
		p.position(sharedOutAt).Store(position)
		if _, err := m.Read(make([]byte, 10)); !errors.Is(err, errPosition) {
			t.Errorf("position %d: %v", position, err)
		}
		p.position(sharedInAt + ringReadAt).Store(position)
		p.end()
		if m.send([]byte("x")) {
			t.Errorf("position %d: a message was sent", position)
		}
	}
}

// TestSend sends messages around the end of the ring, and one more than there is room for.
func TestSend(t *testing.T) {
	t.Parallel()
	m, p := newProcess(t, testHub(t))
	ring := p.memory[sharedInDataAt:][:inSize]
	var read uint64
	for i := range 5000 {
		want := fmt.Appendf(nil, "message %d", i)
		if !m.send(want) {
			t.Fatal("no room")
		}
		got := make([]byte, len(want))
		for j := range got {
			got[j] = ring[(read+uint64(j))%inSize]
		}
		read += uint64(len(want))
		p.position(sharedInAt + ringReadAt).Store(read)
		if !bytes.Equal(got, want) || p.position(sharedInAt).Load() != read || p.word(sharedBellAt).Load() != uint32(i)+1 {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	if !m.send(make([]byte, inSize)) {
		t.Error("no room in an empty ring")
	}
	p.end()
	if m.send([]byte("x")) {
		t.Error("room in a full ring")
	}
}

// TestRecorderDies kills a recorder: the kernel marks its futex. One that closes its hub marks it itself.
func TestRecorderDies(t *testing.T) {
	t.Parallel()
	h := must.Get(newHub())(t)
	page := mapAll(t, int(h.file.Fd()), recorderSize)
	life := (*atomic.Uint32)(unsafe.Pointer(&page[recorderLifeAt]))
	if life.Load() == 0 || life.Load()&died != 0 {
		t.Errorf("life %#x", life.Load())
	}
	h.close()
	if life.Load()&died == 0 {
		t.Errorf("life %#x after Close", life.Load())
	}

	cmd := exec.Command(os.Args[0], "-test.run", "^TestHelper$")
	cmd.Env = append(os.Environ(), "SHARED_HELPER=1")
	output, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		t.Fatal("the helper does not start")
	}
	var fd int
	must.Get(fmt.Fscanf(output, "%d\n", &fd))(t)
	file := must.Get(os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", cmd.Process.Pid, fd), os.O_RDWR, 0))(t)
	defer file.Close()
	page = mapAll(t, int(file.Fd()), recorderSize)
	life = (*atomic.Uint32)(unsafe.Pointer(&page[recorderLifeAt]))
	if life.Load() == 0 || life.Load()&died != 0 {
		t.Errorf("life %#x", life.Load())
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if life.Load()&died == 0 {
		t.Errorf("life %#x after SIGKILL", life.Load())
	}
}

// TestHelper is the recorder that TestRecorderDies kills.
func TestHelper(t *testing.T) {
	if os.Getenv("SHARED_HELPER") == "" {
		t.Skip("it helps another test")
	}
	h := testHub(t)
	fmt.Println(h.file.Fd())
	select {}
}

// FuzzMemory has a process write anything into its memory at any time: reading ends, with no more bytes
// than the process has claimed to have written.
func FuzzMemory(f *testing.F) {
	f.Add([]byte{1, 2, 3}, uint64(3), uint64(0))
	f.Add([]byte{}, uint64(outSize), uint64(1))
	f.Add([]byte{9}, uint64(outSize+1), uint64(1<<63))
	f.Fuzz(func(t *testing.T, head []byte, first, second uint64) {
		h := testHub(t)
		m, p := newProcess(t, h)
		copy(p.memory[:sharedCallsAt], head)
		p.position(sharedOutAt).Store(first)
		got := 0
		for _, position := range []uint64{first, second} {
			p.position(sharedOutAt).Store(position)
			buffer := make([]byte, 2*outSize)
			n, err := m.tryRead(buffer)
			got += n
			if err == nil && uint64(got) > position {
				t.Errorf("%d bytes read of %d", got, position)
			}
		}
		p.end()
		if n, err := io.Copy(io.Discard, m); n > outSize || err != nil && !errors.Is(err, errPosition) {
			t.Errorf("%d bytes more, %v", n, err)
		}
		m.send(binary.NativeEndian.AppendUint64(nil, first))
	})
}

// TestToldBeforeGo tells a process of PyTorch while it still waits for GO: it hears of it just behind.
func TestToldBeforeGo(t *testing.T) {
	t.Parallel()
	h := must.Get(newHub())(t)
	defer h.close()
	pair := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	far := os.NewFile(uintptr(pair[1]), "process")
	defer far.Close()
	near := os.NewFile(uintptr(pair[0]), "recorder")
	conn := must.Get(net.FileConn(near))(t)
	near.Close()
	l := &link{conn: conn.(*net.UnixConn), hub: h}
	defer l.unshare()
	defer l.hangUp()
	payload := appendTorch(&Torch{}, true)
	l.tell(msgTorch, payload)
	l.answer(uint32(os.Getpid()), func() GoConfig { return GoConfig{} })
	got := make([]byte, frameSize+len(payload))
	must.Get(l.memory.file.ReadAt(got, sharedInDataAt))(t)
	if !bytes.Equal(got, appendFrame(nil, msgTorch, payload)) || l.memory.sent != uint64(len(got)) {
		t.Errorf("%d bytes behind GO: %x", l.memory.sent, got)
	}
}
