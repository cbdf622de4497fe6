package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/figures"
)

// A Process says which program a process runs. A member is empty if it cannot be read, for
// instance after the process's end.
type Process struct {
	Executable string // path
	Args       string // separated by NUL; the last one is cutArguments if there are more
	Folder     string // that it works in
	Parent     uint32 // PID
}

// Describe reads which program a process runs.
func Describe(pid int) Process {
	dir := folder(pid)
	cwd, _ := os.Readlink(dir + "/cwd")
	return Process{Executable: executable(pid), Args: arguments(dir), Folder: cwd, Parent: parent(dir)}
}

// cutArguments stands for the arguments that are too long to be read.
var cutArguments = fmt.Sprintf("[arguments of more than %d KiB]", maxArguments>>10)

// arguments returns a process's arguments, as far as they can be read. Truncated arguments are dropped: redaction needs
// the whole value.
func arguments(dir string) string {
	text, err := Read(dir+"/cmdline", maxArguments)
	if errors.Is(err, ErrCut) {
		return string(text[:bytes.LastIndexByte(text, 0)+1]) + cutArguments
	}
	return strings.TrimSuffix(string(text), "\x00")
}

// CommandLine returns the command line of a process for a shell; PROGRAM where it is not known, or too long to paste.
func CommandLine(pid int) string {
	const most = 500 // bytes
	line := figures.Shell(strings.Split(arguments(folder(pid)), "\x00")...)
	if line == "''" || len(line) > most {
		return "PROGRAM"
	}
	return line
}

// WorksIn reports whether a path leads to the working folder of a process. In a container it leads elsewhere,
// if anywhere.
func WorksIn(pid int, path string) bool {
	cwd, err := FileOf(folder(pid) + "/cwd")
	there, err2 := FileOf(path)
	return err == nil && err2 == nil && SameFile(&cwd, &there)
}

// Environment reads the environment variables that a process was started with, NAME=VALUE. What the process changed
// since is not there. Of an environment that is too long it returns the first variables, with an error for which
// errors.Is finds [ErrCut].
func Environment(pid int) ([]string, error) {
	text, err := Read(folder(pid)+"/environ", maxEnvironment)
	cut := errors.Is(err, ErrCut)
	if err != nil && !cut {
		return nil, explain(pid, err)
	}
	if cut {
		text = text[:bytes.LastIndexByte(text, 0)+1]
	}
	var environ []string // empty also while the process begins a program
	for variable := range strings.SplitSeq(strings.TrimSuffix(string(text), "\x00"), "\x00") {
		// of empty ones, as a title leaves them behind, one
		if n := len(environ); variable != "" || n > 0 && environ[n-1] != "" {
			environ = append(environ, variable)
		}
	}
	return environ, err
}

// EnvironmentHas reports whether a process was started with a setting, NAME=VALUE. An error says that this is not
// known.
func EnvironmentHas(pid int, setting string) (bool, error) {
	environ, err := Environment(pid)
	if slices.Contains(environ, setting) {
		return true, nil
	}
	return false, err
}

// Name is the base name of the program that a process runs, "" if it cannot be read.
func Name(pid int) string {
	path := executable(pid)
	if path == "" {
		return ""
	}
	return filepath.Base(path)
}

// PIDs lists the processes that we see.
func PIDs() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func folder(pid int) string { return "/proc/" + strconv.Itoa(pid) }

func executable(pid int) string {
	path, _ := os.Readlink(folder(pid) + "/exe")
	return strings.TrimSuffix(path, deletedSuffix)
}

// parent reads the parent's PID: the second field behind the command. The command is in brackets
// and may hold any characters.
func parent(dir string) uint32 {
	fields := statFields(dir)
	if len(fields) < 2 {
		return 0
	}
	pid, _ := strconv.ParseUint(fields[1], 10, 32)
	return uint32(pid)
}

// statFields are the fields behind the command in a stat file; none after the process's end.
func statFields(dir string) []string {
	stat, err := Read(dir+"/stat", MaxFacts)
	if err != nil {
		return nil
	}
	return strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
}

// Faults counts the page faults of a process since its start: those without and those with reading from a
// disk. ok is false if the process has ended.
func Faults(pid uint32) (minor, major uint64, ok bool) {
	fields := statFields(folder(int(pid)))
	if len(fields) < 10 {
		return 0, 0, false
	}
	minor, err1 := strconv.ParseUint(fields[7], 10, 64)
	major, err2 := strconv.ParseUint(fields[9], 10, 64)
	return minor, major, err1 == nil && err2 == nil
}

// A Stat is what the kernel says of a process at a moment.
type Stat struct {
	Parent      int // its PID
	Start       StartTime
	Ended       bool   // and its parent has not asked how
	Forked      bool   // it still runs the program of its parent, as a child does from its fork to its exec
	ChildFaults uint64 // page faults of its children that have ended and that it has waited for
}

// forkNoExec is the kernel's PF_FORKNOEXEC, a flag of a process.
const forkNoExec = 0x40

// StatOf reads the Stat of a process; ok is false if there is no such process.
func StatOf(pid int) (s Stat, ok bool) {
	fields := statFields(folder(pid))
	if len(fields) < 20 {
		return Stat{}, false
	}
	parent, err1 := strconv.Atoi(fields[1])
	flags, err2 := strconv.ParseUint(fields[6], 10, 64)
	faults, err3 := strconv.ParseUint(fields[8], 10, 64)
	start, err4 := strconv.ParseUint(fields[19], 10, 64)
	return Stat{parent, StartTime(start), fields[0] == "Z", flags&forkNoExec != 0, faults},
		errors.Join(err1, err2, err3, err4) == nil
}

// Children lists the processes that a process has started and not waited for.
func Children(pid int) (children []int) {
	for tid := range Threads(uint32(pid)) {
		text, _ := Read(fmt.Sprintf("%s/task/%d/children", folder(pid), tid), maxChildren) // none if it has ended
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// Status is how a process ended that its parent has not waited for, as wait(2) tells it. ok is false if it has not
// ended, or if this user may not know.
func Status(pid int) (status unix.WaitStatus, ok bool) {
	const exitCode = 49 // of the fields behind the command
	fields := statFields(folder(pid))
	if len(fields) <= exitCode || fields[0] != "Z" {
		return 0, false
	}
	n, err := strconv.ParseUint(fields[exitCode], 10, 32)
	return unix.WaitStatus(n), err == nil
}

// User is the effective user of a process; ok is false if the process has ended.
func User(pid int) (uid uint32, ok bool) { return user(pid, 1) }

// Owner is the user who started a process, also if it runs with the rights of another one; ok is false if the process
// has ended.
func Owner(pid int) (uid uint32, ok bool) { return user(pid, 0) }

func user(pid, field int) (uid uint32, ok bool) {
	status, err := Read(folder(pid)+"/status", MaxStatus)
	fields := statusFields(status, "Uid:")
	if err != nil || len(fields) <= field {
		return 0, false
	}
	n, err := strconv.ParseUint(string(fields[field]), 10, 32)
	return uint32(n), err == nil
}

// Ticks are the unit of times of start: hundredths of a second since the machine was started, also on arm64.
const ticks = 10 * time.Millisecond

// A StartTime says when a process was started.
type StartTime uint64

// Now is the StartTime of a process that would be started now.
func Now() StartTime {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return 0 // every Linux has this clock
	}
	return StartTime(t.Nano() / int64(ticks))
}

// Started is the time at which a process was started; ok is false if the process has ended.
func Started(pid int) (at StartTime, ok bool) {
	s, ok := StatOf(pid)
	return s.Start, ok
}

// Raised reports whether a process runs with other rights than the user who started it: by setuid or setgid.
func Raised(pid int) bool {
	status, err := Read(folder(pid)+"/status", MaxStatus)
	if err != nil {
		return false
	}
	for _, key := range []string{"Uid:", "Gid:"} {
		if ids := statusFields(status, key); len(ids) > 1 && !bytes.Equal(ids[0], ids[1]) {
			return true
		}
	}
	return false
}

// CodeSize is the size of a process's code in KiB; 0 for a process that has given up its memory.
// It is far cheaper than reading the mappings.
func CodeSize(pid int) (kibibytes uint64, err error) {
	status, err := Read(folder(pid)+"/status", MaxStatus)
	if err != nil {
		return 0, explain(pid, err)
	}
	return statusNumber(status, "VmExe:") + statusNumber(status, "VmLib:"), nil
}

// statusNumber reads the number in a line of /proc/PID/status, "VmLib:      1234 kB"; 0 without the
// line.
func statusNumber(status []byte, key string) uint64 {
	fields := statusFields(status, key)
	if len(fields) == 0 {
		return 0
	}
	n, err := strconv.ParseUint(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// OpenFile is a path of the open file f, which stays right if the file's own path comes to lead to
// another file.
func OpenFile(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }

// translators match files that a process maps whose code is translated as it runs, and name the programs that do so.
var translators = []struct {
	file *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`/valgrind/[a-z-]+-(amd64|arm64)-linux$|/vgpreload_[a-z_]+-(amd64|arm64)-linux\.so$`), "valgrind"},
	{regexp.MustCompile(`/librrpreload\.so$`), "rr"},
	{regexp.MustCompile(`/qemu-(x86_64|aarch64)(-static)?$`), "qemu"},
	{regexp.MustCompile(`/pinbin$`), "Pin"},
	{regexp.MustCompile(`/libdynamorio\.so[0-9.]*$`), "DynamoRIO"},
}

// Translator returns the program that translates a process's code as it runs, "" for none that is known. A breakpoint
// in such code ends the process.
func Translator(pid int) string {
	files, _ := Files(pid) // none of a process that has ended
	for _, file := range append(files, executable(pid)) {
		for _, t := range translators {
			if t.file.MatchString(file) {
				return t.name
			}
		}
	}
	return ""
}
