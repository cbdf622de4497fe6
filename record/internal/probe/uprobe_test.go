package probe

import (
	"errors"
	"fmt"
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
		{loadError(modeAuto, unix.ENOMEM), "no memory for the eBPF maps", unix.ENOMEM},
		{loadError(modeAuto, unix.EMFILE), "no room for the eBPF programs: the limit of", unix.EMFILE},
		{loadError(modeMulti, unix.EINVAL), "Linux 6.10 or newer", unix.EINVAL},
		{loadError(modeAuto, unix.EINVAL), oldestKernel + " or newer", unix.EINVAL},
		{&PermissionError{cause: unix.EPERM}, "start the container with --privileged); operation not permitted", fs.ErrPermission},
		{attachError("/lib/x", unix.ESRCH), "the process has ended before probes were on /lib/x", fs.ErrNotExist},
		{attachError("/lib/x", unix.EIO), "no probes on /lib/x", unix.EIO},
	} {
		if !strings.Contains(c.err.Error(), c.want) || !errors.Is(c.err, c.is) {
			t.Errorf("%q lacks %q, or is no %v", c.err, c.want, c.is)
		}
	}
	admin := &PermissionError{Missing: []string{capSysAdmin}, rights: rights{user: 1000, bounding: 1<<41 - 1}, cause: unix.EACCES}
	if got := loadError(modeAuto, fmt.Errorf("loading: %w", admin)).Error(); !strings.Contains(got, "CAP_SYS_ADMIN missing (run with sudo, or once: sudo setcap cap_sys_admin+ep /") {
		t.Error(got)
	}
	if !isPermission(loadError(modeAuto, unix.EPERM)) || isFatal(unix.EBUSY) || !isFatal(unix.ESRCH) {
		t.Error("errors are taken for others")
	}
}

// A closer notes when it is closed.
type notedCloser struct {
	name   string
	closed *[]string
	err    error
}

func (c notedCloser) Close() error {
	*c.closed = append(*c.closed, c.name)
	return c.err
}

// All are closed in order, also behind one that fails.
func TestInOrder(t *testing.T) {
	var closed []string
	failure := errors.New("it failed")
	err := closeInOrder{notedCloser{"a", &closed, failure}, closeInOrder{notedCloser{"b", &closed, nil}}, notedCloser{"c", &closed, nil}}.Close()
	if !errors.Is(err, failure) || !slices.Equal(closed, []string{"a", "b", "c"}) {
		t.Errorf("closed %q, %v", closed, err)
	}
}

// Each closer waits for the other.
func TestCloseTogether(t *testing.T) {
	a, b := make(chan struct{}), make(chan struct{})
	links := together{meetingCloser{a, b}, meetingCloser{b, a}}
	if err := links.Close(); err != nil {
		t.Error(err)
	}
}

type meetingCloser struct{ here, there chan struct{} }

func (m meetingCloser) Close() error {
	close(m.here)
	<-m.there
	return nil
}

// Each obstacle has its remedy.
func TestRemedies(t *testing.T) {
	const (
		all  = "\nCapBnd:\t000001ffffffffff"
		none = "Name:\tcudatrace\nCapEff:\t0000000000000000"
		both = "Name:\tcudatrace\nCapEff:\t000000c000000000"
	)
	for _, c := range []struct {
		status string
		rights rights
		want   string
	}{
		{none + all, rights{user: 1000}, "CAP_BPF and CAP_PERFMON missing (run with sudo, or once: sudo setcap cap_bpf,cap_perfmon+ep /"},
		{"Name:\tcudatrace\nCapEff:\t0000008000000000" + all, rights{user: 1000}, "CAP_PERFMON missing (run with sudo, or once: sudo setcap cap_perfmon+ep /"},
		{none + all, rights{user: 0}, "(start the container with --cap-add BPF --cap-add PERFMON)"},
		{none + "\nCapBnd:\t00000000a80425fb", rights{user: 1000}, "(start the container with --cap-add BPF --cap-add PERFMON)"},
		{none + all + "\nNoNewPrivs:\t1\nSeccomp:\t2", rights{user: 1000}, "without --security-opt no-new-privileges"},
		{none + all, rights{user: 1000, nosuid: true}, "mounted nosuid"},
		{both + all, rights{foreign: true}, "in its first user namespace only"},
		{none + all, rights{foreign: true}, "in its first user namespace only"},
		{both + all + "\nSeccomp:\t2\n", rights{}, "seccomp=unconfined); operation not permitted"},
		{"Name:\tcudatrace\nCapEff:\t0000000000200000", rights{}, "a security module"},
		{both + all, rights{lockdown: true}, "lockdown=integrity"},
	} {
		c.rights.readStatus([]byte(c.status))
		err := &PermissionError{Missing: lacking(c.rights.effective), rights: c.rights, cause: unix.EPERM}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q lacks %q", err, c.want)
		}
	}
}
