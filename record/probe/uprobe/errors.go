package uprobe

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/host"
)

// A PermissionError says that the recorder may not use eBPF probes, and how to allow it.
type PermissionError struct {
	Missing []string // capabilities; empty if the recorder has them all and was refused nevertheless
	cause   error
}

func (e *PermissionError) Error() string {
	if len(e.Missing) == 0 {
		return "the kernel refused eBPF probes although no capability is missing: a container's user namespace, seccomp or lockdown forbids them (run on the host, or start the container with --privileged)"
	}
	files := strings.ToLower(strings.Join(e.Missing, ","))
	return fmt.Sprintf("no rights for eBPF probes: %s missing (run with sudo, or once: sudo setcap %s+ep on the cudatrace binary)",
		strings.Join(e.Missing, " and "), files)
}

func (e *PermissionError) Unwrap() error { return e.cause }

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
		return &PermissionError{Missing: missingCapabilities(), cause: cause}
	}
	if errors.Is(cause, unix.ENOMEM) {
		return fmt.Errorf("no memory for the eBPF maps (choose smaller buffers or fewer threads): %w", cause)
	}
	return &UnsupportedError{Mode: m, Release: cmp.Or(host.KernelRelease(), "unknown"), cause: cause}
}

// AttachError says why a file of a process cannot be probed. It is fs.ErrNotExist if the
// process has ended.
func AttachError(path string, cause error) error {
	switch {
	case IsPermission(cause):
		return &PermissionError{Missing: missingCapabilities(), cause: cause}
	case errors.Is(cause, unix.ESRCH), errors.Is(cause, fs.ErrNotExist):
		return fmt.Errorf("the process has ended before probes were on %s: %w", path, fs.ErrNotExist)
	}
	return fmt.Errorf("no probes on %s: %w", path, cause)
}

// IsPermission says whether an error is a missing right.
func IsPermission(err error) bool { return errors.Is(err, fs.ErrPermission) }

// Fatal says whether an error concerns the process or the recorder's rights, so that no other
// function can be probed either.
func Fatal(err error) bool {
	return IsPermission(err) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOMEM)
}

// missingCapabilities lists which of CAP_BPF and CAP_PERFMON this process lacks. CAP_SYS_ADMIN
// stands for both.
func missingCapabilities() []string {
	have := effectiveCapabilities()
	if have&(1<<unix.CAP_SYS_ADMIN) != 0 {
		return nil
	}
	var missing []string
	if have&(1<<unix.CAP_BPF) == 0 {
		missing = append(missing, "CAP_BPF")
	}
	if have&(1<<unix.CAP_PERFMON) == 0 {
		missing = append(missing, "CAP_PERFMON")
	}
	return missing
}

// effectiveCapabilities is a set of bits, 0 if it cannot be read.
func effectiveCapabilities() uint64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("\nCapEff:"))
	hex, _, _ := bytes.Cut(rest, []byte("\n"))
	set, _ := strconv.ParseUint(string(bytes.TrimSpace(hex)), 16, 64)
	return set
}
