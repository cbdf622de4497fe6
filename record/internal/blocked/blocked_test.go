package blocked

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
)

// TestKinds names the kinds of descriptors of this process.
func TestKinds(t *testing.T) {
	t.Parallel()
	p := NewProcess(uint32(os.Getpid()))
	a, b, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	defer b.Close()
	pair := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	event := must.Get(unix.Eventfd(0, unix.EFD_CLOEXEC))(t)
	defer unix.Close(event)
	epoll := must.Get(unix.EpollCreate1(unix.EPOLL_CLOEXEC))(t)
	defer unix.Close(epoll)
	for _, fd := range []int{int(a.Fd()), pair[0]} {
		must.Do(t, unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}))
	}
	file := must.Get(os.Create(t.TempDir() + "/file"))(t)
	defer file.Close()
	for fd, want := range map[int]string{int(a.Fd()): "pipe", pair[0]: "socket", event: "eventfd", epoll: "eventpoll", int(file.Fd()): "file", 1 << 20: ""} {
		if got := p.kind(fd); got != want {
			t.Errorf("descriptor %d is %q, not %q", fd, got, want)
		}
	}
	if got := p.kinds(p.watched(epoll)); got != "pipe and socket" {
		t.Errorf("epoll watches %q", got)
	}
}
