package probe

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// A PermissionError says that the recorder may not use eBPF probes, and how to allow it.
type PermissionError struct {
	Missing []string // capabilities; empty if the recorder has them all and was refused nevertheless
	rights  rights
	cause   error
}

func permissionError(cause error) error {
	var known *PermissionError
	if errors.As(cause, &known) {
		return known
	}
	r := readRights()
	return &PermissionError{Missing: lacking(r.effective), rights: r, cause: cause}
}

func (e *PermissionError) Error() string {
	if e.rights.foreign {
		return "the kernel allows eBPF probes in its first user namespace only, and this process is in another one " +
			"(of a rootless container, for instance): record on the host, or in a container of root's without user namespaces"
	}
	if len(e.Missing) == 0 {
		return fmt.Sprintf("the kernel refused eBPF probes although no capability is missing: %s; %v", e.rights.forbids(),
			e.cause)
	}
	return fmt.Sprintf("no rights for eBPF probes: %s missing (%s)", strings.Join(e.Missing, " and "), e.remedy())
}

func (e *PermissionError) Unwrap() error { return e.cause }

// remedy says how the recorder gets the missing capabilities.
func (e *PermissionError) remedy() string {
	switch r := &e.rights; {
	case r.user == 0 || slices.ContainsFunc(e.Missing, func(c string) bool { return !grants(r.bounding, c) }):
		return "start the container with --cap-add " + strings.ReplaceAll(strings.Join(e.Missing, " --cap-add "), "CAP_", "")
	case r.noNewPrivileges:
		return "no_new_privs keeps this process from gaining them: start the container without --security-opt " +
			"no-new-privileges"
	case r.nosuid:
		return "run with sudo; setcap has no effect on the cudatrace binary, whose file system is mounted nosuid"
	}
	binary, err := os.Executable()
	if err != nil {
		binary = "cudatrace"
	}
	missing := strings.ToLower(strings.Join(e.Missing, ","))
	return "run with sudo, or once: " + figures.Shell("sudo", "setcap", missing+"+ep", binary)
}

// The capabilities that probes need. CAP_SYS_ADMIN stands for the other two.
const (
	capBPF      = "CAP_BPF"
	capPerfmon  = "CAP_PERFMON"
	capSysAdmin = "CAP_SYS_ADMIN"
)

var capabilityBits = map[string]int{capBPF: unix.CAP_BPF, capPerfmon: unix.CAP_PERFMON, capSysAdmin: unix.CAP_SYS_ADMIN}

// grants reports whether a set of capabilities grants one of them.
func grants(set uint64, capability string) bool {
	return set&(1<<unix.CAP_SYS_ADMIN|1<<capabilityBits[capability]) != 0
}

// lacking lists which of CAP_BPF and CAP_PERFMON a set does not grant.
func lacking(set uint64) []string {
	return slices.DeleteFunc([]string{capBPF, capPerfmon}, func(c string) bool { return grants(set, c) })
}

// rights are what this process may do, and what may keep it from doing more.
type rights struct {
	user                int
	effective, bounding uint64 // capabilities
	foreign             bool   // it is in a user namespace, where capabilities do not reach the kernel
	noNewPrivileges     bool
	seccomp             bool // a filter of system calls is on
	nosuid              bool // capabilities of its binary have no effect
	lockdown            bool // the kernel keeps its secrets even from root
}

// Rights says in words what this process may do about probes, and what restricts it.
func Rights() string {
	r := readRights()
	words := []string{fmt.Sprintf("user %d", r.user)}
	for _, c := range []string{capBPF, capPerfmon} {
		switch {
		case grants(r.effective, c):
			words = append(words, "has "+c)
		case grants(r.bounding, c):
			words = append(words, "lacks "+c)
		default:
			words = append(words, "cannot have "+c)
		}
	}
	return strings.Join(append(words, r.restrictions()...), ", ")
}

// restrictions are what may keep this process from probes although it has the capabilities.
func (r *rights) restrictions() []string {
	var words []string
	for _, w := range []struct {
		is   bool
		text string
	}{
		{r.foreign, "in a user namespace"}, {r.noNewPrivileges, "no_new_privs is set"}, {r.seccomp, "a seccomp filter is on"},
		{r.nosuid, "the file system of this binary is mounted nosuid"},
		{r.lockdown, "the kernel is locked down for confidentiality"},
	} {
		if w.is {
			words = append(words, w.text)
		}
	}
	return words
}

// firstUserNamespace is the inode number of the initial user namespace.
const firstUserNamespace = 0xEFFFFFFD

// readRights leaves out what it cannot read.
func readRights() rights {
	r := rights{user: os.Geteuid()}
	if status, err := procfs.Read("/proc/self/status", procfs.MaxStatus); err == nil {
		r.readStatus(status)
	}
	var namespace unix.Stat_t
	r.foreign = unix.Stat("/proc/self/ns/user", &namespace) == nil && namespace.Ino != firstUserNamespace
	var system unix.Statfs_t
	r.nosuid = unix.Statfs("/proc/self/exe", &system) == nil && system.Flags&unix.ST_NOSUID != 0
	lockdown, err := os.ReadFile("/sys/kernel/security/lockdown")
	r.lockdown = err == nil && bytes.Contains(lockdown, []byte("[confidentiality]"))
	return r
}

// readStatus reads a text like /proc/PID/status.
func (r *rights) readStatus(text []byte) {
	number := func(key string, base int) uint64 {
		_, rest, _ := bytes.Cut(text, []byte("\n"+key+":"))
		value, _, _ := bytes.Cut(rest, []byte("\n"))
		n, _ := strconv.ParseUint(string(bytes.TrimSpace(value)), base, 64)
		return n
	}
	r.effective, r.bounding = number("CapEff", 16), number("CapBnd", 16)
	r.noNewPrivileges, r.seccomp = number("NoNewPrivs", 10) == 1, number("Seccomp", 10) == 2
}

// forbids says what may forbid probes to a process that lacks no capability, and the remedy.
func (r *rights) forbids() string {
	switch {
	case r.lockdown:
		return "it is locked down for confidentiality (boot it with lockdown=integrity)"
	case r.seccomp:
		return "a seccomp filter forbids them (run on the host, or start the container with --security-opt " +
			"seccomp=unconfined)"
	}
	return "a security module forbids them (run on the host, or start the container with --privileged)"
}

// An unsupportedError says that the kernel is too old for the probes, or was built without a
// feature that they need.
type unsupportedError struct {
	Mode    attachMode // the mode that was asked for
	Release string
	cause   error
}

// oldestKernel is the oldest kernel that accepts the eBPF program; on arm64 the program needs
// atomic operations.
var oldestKernel = map[string]string{"amd64": "Linux 5.15", "arm64": "Linux 5.18"}[runtime.GOARCH]

func (e *unsupportedError) Error() string {
	if _, err := os.Stat("/sys/kernel"); errors.Is(err, fs.ErrNotExist) {
		return "the eBPF probes need /sys, where the kernel describes its types, and it is not mounted here " +
			"(mount -t sysfs sysfs /sys; a container has it by default)"
	}
	needs := oldestKernel
	if e.Mode == modeMulti {
		needs = "Linux 6.10"
	}
	return fmt.Sprintf("this kernel (%s) cannot run the eBPF probes: they need %s or newer with CONFIG_BPF_SYSCALL, "+
		"CONFIG_UPROBES, CONFIG_BPF_EVENTS and CONFIG_DEBUG_INFO_BTF",
		e.Release, needs)
}

func (e *unsupportedError) Unwrap() error { return e.cause }

// loadError says why the kernel refused programs of a mode, or their maps.
func loadError(m attachMode, cause error) error {
	if isPermission(cause) {
		return permissionError(cause)
	}
	if errors.Is(cause, unix.ENOMEM) {
		return fmt.Errorf("no memory for the eBPF maps (choose smaller buffers or fewer threads): %w", cause)
	}
	if noFiles(cause) {
		return fmt.Errorf("no room for the eBPF programs: %w", errno.Plain(cause))
	}
	return &unsupportedError{Mode: m, Release: cmp.Or(host.KernelRelease(), "unknown"), cause: cause}
}

// attachError says why a file of a process cannot be probed. It is fs.ErrNotExist if the
// process has ended.
func attachError(path string, cause error) error {
	switch {
	case isPermission(cause):
		return permissionError(cause)
	case errors.Is(cause, unix.ESRCH), errors.Is(cause, fs.ErrNotExist):
		return fmt.Errorf("the process has ended before probes were on %s: %w", path, fs.ErrNotExist)
	}
	return fmt.Errorf("no probes on %s: %w", path, errno.Plain(cause))
}

// noFiles reports whether an error is that no more files may be open.
func noFiles(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

// isPermission reports whether an error is a missing right.
func isPermission(err error) bool { return errors.Is(err, fs.ErrPermission) }

// isFatal reports whether an error concerns the process or what the recorder may do, so that no other
// function can be probed either.
func isFatal(err error) bool {
	return isPermission(err) || noFiles(err) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) ||
		errors.Is(err, unix.ENOMEM)
}
