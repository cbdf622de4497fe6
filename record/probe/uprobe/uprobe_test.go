package uprobe

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
		is   error
	}{
		{LoadError(Auto, unix.ENOMEM), "no memory for the eBPF maps", unix.ENOMEM},
		{LoadError(Session, unix.EINVAL), "Linux 6.13 or newer", unix.EINVAL},
		{LoadError(Auto, unix.EINVAL), oldestKernel + " or newer", unix.EINVAL},
		{&PermissionError{cause: unix.EPERM}, "start the container with --privileged", fs.ErrPermission},
		{AttachError("/lib/x", unix.ESRCH), "the process has ended before probes were on /lib/x", fs.ErrNotExist},
		{AttachError("/lib/x", unix.EIO), "no probes on /lib/x", unix.EIO},
	} {
		if !strings.Contains(c.err.Error(), c.want) || !errors.Is(c.err, c.is) {
			t.Errorf("%q lacks %q, or is no %v", c.err, c.want, c.is)
		}
	}
	if !IsPermission(LoadError(Auto, unix.EPERM)) || Fatal(unix.EBUSY) || !Fatal(unix.ESRCH) {
		t.Error("errors are taken for others")
	}
}

// A closer notes when it is closed.
type closer struct {
	name   string
	closed *[]string
	err    error
}

func (c closer) Close() error {
	*c.closed = append(*c.closed, c.name)
	return c.err
}

// All are closed in order, also behind one that fails.
func TestInOrder(t *testing.T) {
	var closed []string
	failure := errors.New("it failed")
	err := InOrder{closer{"a", &closed, failure}, InOrder{closer{"b", &closed, nil}}, closer{"c", &closed, nil}}.Close()
	if !errors.Is(err, failure) || !slices.Equal(closed, []string{"a", "b", "c"}) {
		t.Errorf("closed %q, %v", closed, err)
	}
}

// Each closer waits for the other.
func TestCloseTogether(t *testing.T) {
	a, b := make(chan struct{}), make(chan struct{})
	links := together{meeting{a, b}, meeting{b, a}}
	if err := links.Close(); err != nil {
		t.Error(err)
	}
}

type meeting struct{ here, there chan struct{} }

func (m meeting) Close() error {
	close(m.here)
	<-m.there
	return nil
}
