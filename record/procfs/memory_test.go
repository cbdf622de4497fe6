package procfs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
)

// TestMemoryNobodyFillsIn reads memory of which one page is there and the next one would have the reader wait for a
// handler that never answers.
func TestMemoryNobodyFillsIn(t *testing.T) {
	t.Parallel()
	const (
		api, register, missing = 0xaa, 0xc020aa00, 1
		handshake              = 0xc018aa3f
	)
	size := int(pageSize)
	memory := must.Get(unix.Mmap(-1, 0, 2*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS))(t)
	defer func() { _ = unix.Munmap(memory) }()
	handler, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errno != 0 {
		t.Skip("userfaultfd: ", errno)
	}
	defer unix.Close(int(handler)) // which lets those who wait go on
	at := uint64(uintptr(unsafe.Pointer(&memory[0])))
	for _, request := range []struct {
		number uintptr
		words  *[4]uint64
	}{{handshake, &[4]uint64{api}}, {register, &[4]uint64{at + uint64(size), uint64(size), missing}}} {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, handler, request.number, uintptr(unsafe.Pointer(request.words)))
		if errno != 0 {
			t.Skipf("userfaultfd request %#x: %v", request.number, errno)
		}
	}
	copy(memory[size-8:size], "answered")
	m := Memory{PID: os.Getpid()}
	b := make([]byte, 8)
	if err := m.Read(at+uint64(size)-8, b); err != nil || string(b) != "answered" {
		t.Errorf("the page that is there: %q, %v", b, err)
	}
	for _, from := range []uint64{at + uint64(size), at + uint64(size) - 4, ^uint64(0) - 3} {
		if err := m.Read(from, b); err != unix.EFAULT {
			t.Errorf("at %#x: %v", from, err)
		}
	}
}

// TestStatNobodyAnswers looks at a descriptor of a FUSE mount whose server never answers.
func TestStatNobodyAnswers(t *testing.T) {
	t.Parallel()
	server, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("/dev/fuse: ", err)
	}
	folder := t.TempDir()
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", server)
	if err := unix.Mount("test", folder, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		_ = unix.Close(server)
		t.Skip("mounting: ", err)
	}
	defer func() {
		_ = unix.Close(server) // which lets those who wait go on
		if err := unix.Unmount(folder, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	fd := must.Get(unix.Open(folder, unix.O_PATH|unix.O_CLOEXEC, 0))(t)
	defer unix.Close(fd)
	s, err := FileOf(filepath.Join("/proc/self/fd", fmt.Sprint(fd)))
	if err != nil || s.Mode&unix.S_IFMT != unix.S_IFDIR {
		t.Errorf("mode %o, %v", s.Mode, err)
	}
}
