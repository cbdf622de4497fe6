package uprobe

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/host"
)

// An UnsupportedError says that the kernel is too old for the probes, or was built without a
// feature that they need.
type UnsupportedError struct {
	Mode    Mode // the mode that was asked for
	Release string
	cause   error
}

// oldestKernel is the oldest kernel that accepts the eBPF program; on arm64 the program needs
// atomic operations.
var oldestKernel = map[string]string{"amd64": "Linux 5.15", "arm64": "Linux 5.18"}[runtime.GOARCH]

func (e *UnsupportedError) Error() string {
	needs := map[Mode]string{Session: "Linux 6.13", Multi: "Linux 6.10"}[e.Mode]
	return fmt.Sprintf("this kernel (%s) cannot run the eBPF probes: they need %s or newer with CONFIG_BPF_SYSCALL, CONFIG_UPROBES, CONFIG_BPF_EVENTS and CONFIG_DEBUG_INFO_BTF",
		e.Release, cmp.Or(needs, oldestKernel))
}

func (e *UnsupportedError) Unwrap() error { return e.cause }

// LoadError says why the kernel refused programs of a mode, or their maps.
func LoadError(m Mode, cause error) error {
	if IsPermission(cause) {
		return permissionError(cause)
	}
	if errors.Is(cause, unix.ENOMEM) {
		return fmt.Errorf("no memory for the eBPF maps (choose smaller buffers or fewer threads): %w", cause)
	}
	if noFiles(cause) {
		return fmt.Errorf("no room for the eBPF programs: %w", errno.Plain(cause))
	}
	return &UnsupportedError{Mode: m, Release: cmp.Or(host.KernelRelease(), "unknown"), cause: cause}
}

// AttachError says why a file of a process cannot be probed. It is fs.ErrNotExist if the
// process has ended.
func AttachError(path string, cause error) error {
	switch {
	case IsPermission(cause):
		return permissionError(cause)
	case errors.Is(cause, unix.ESRCH), errors.Is(cause, fs.ErrNotExist):
		return fmt.Errorf("the process has ended before probes were on %s: %w", path, fs.ErrNotExist)
	}
	return fmt.Errorf("no probes on %s: %w", path, errno.Plain(cause))
}

// noFiles says whether an error is that no more files may be open.
func noFiles(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

// IsPermission says whether an error is a missing right.
func IsPermission(err error) bool { return errors.Is(err, fs.ErrPermission) }

// Fatal says whether an error concerns the process or what the recorder may do, so that no other
// function can be probed either.
func Fatal(err error) bool {
	return IsPermission(err) || noFiles(err) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOMEM)
}
