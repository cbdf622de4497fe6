package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/convert/prometheus"
	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// soakInside tells the process in which the soak runs from the one that starts it.
const soakInside = "CUDATRACE_SOAK_INSIDE"

// TestWatchSoak holds 'cudatrace watch' against every fault of a long life, while armed programs come and go: see
// soakFaults. Programs end as they do alone, nothing is left over, the folder keeps its bound, the file of metrics is
// whole at any time, and neither the service nor a program that is recorded grows. CUDATRACE_SOAK is the number of
// seconds; without it each third fault comes once.
//
// It runs in PID, mount and network namespaces of its own: the service records whatever is armed, and all that is left
// over can be seen there.
func TestWatchSoak(t *testing.T) {
	if os.Getenv(soakInside) != "" {
		soakHere(t)
		return
	}
	t.Parallel()
	must.BeRoot(t)
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestWatchSoak$", "-test.timeout=0", "-test.v")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL,
	}
	cmd.Env = append(os.Environ(), soakInside+"=1", "TMPDIR="+t.TempDir())
	runtime.LockOSThread() // whose end the signal would come with
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "soak: ") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

const (
	soakDisk  = 4 << 20 // bytes of the file system of the windows
	soakLimit = 1 << 20 // --disk-limit
)

// A soak is one run of the test.
type soak struct {
	t               *testing.T
	disk, folder    string // the small file system, and the windows in it
	metrics         string
	temporary       string // TMPDIR of the programs
	said            *os.File
	watch           *exec.Cmd
	lives           int
	sizes           []soakSize // of this life of the service
	program         []soakSize // of the program that lives all the time
	steady          *soakTold
	kinds           []*soakKind
	ended, inWindow atomic.Int64 // programs; those that crashed in a window
	looks, largest  atomic.Int64 // at metrics; at the folder
	over            atomic.Bool
	group           sync.WaitGroup
}

// A soakSize is how large a process is.
type soakSize struct{ windows, memory, files, threads int }

// A soakKind is a command that ends by itself, and how it ends untraced.
type soakKind struct {
	args  []string
	input string
	want  string
}

func soakHere(t *testing.T) {
	must.Do(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must.Do(t, unix.Mount("proc", "/proc", "proc", 0, ""))
	seconds, _ := strconv.Atoi(os.Getenv("CUDATRACE_SOAK"))
	s := &soak{t: t, disk: t.TempDir(), temporary: t.TempDir()}
	s.folder, s.metrics = filepath.Join(s.disk, "windows"), filepath.Join(s.disk, "watch.prom")
	must.Do(t, unix.Mount("tmpfs", s.disk, "tmpfs", 0, "size="+strconv.Itoa(soakDisk)))
	defer unix.Unmount(s.disk, unix.MNT_DETACH)
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	must.Do(t, err)
	defer said.Close()
	s.said = said
	t.Setenv("TMPDIR", s.temporary)
	t.Setenv("LD_LIBRARY_PATH", strings.TrimPrefix(nvml(t), "LD_LIBRARY_PATH="))
	s.learn()
	s.start()
	s.steady = s.told("A=1")
	s.goOn(s.work)
	s.goOn(func() { s.ranks(rand.New(rand.NewPCG(1, 1))) })
	s.goOn(func() { s.shortLived(rand.New(rand.NewPCG(2, 2))) })
	s.goOn(s.crashes)
	s.goOn(s.readMetrics)

	end, rounds := time.Now().Add(time.Duration(seconds)*time.Second), 0
	for ; rounds == 0 || time.Now().Before(end) && !t.Failed(); rounds++ {
		for i, f := range soakFaults {
			// The last life of the service, in which it is not to grow, is half of all.
			if f.restarts && rounds&(rounds-1) != 0 || seconds == 0 && i%3 != 0 {
				continue
			}
			if t.Failed() {
				break
			}
			f.do(s)
			s.recovers(f.name)
		}
	}
	s.finish(rounds)
}

// goOn does something beside the faults.
func (s *soak) goOn(do func()) { s.group.Go(do) }

// soakFaults are what goes wrong.
var soakFaults = []struct {
	name     string
	restarts bool
	do       func(*soak)
}{
	{"the recorder is killed", false, func(s *soak) { s.signalChild("cudatrace record ", syscall.SIGKILL) }},
	{"what makes metrics is killed", false, func(s *soak) { s.signalChild("cudatrace stats ", syscall.SIGKILL) }},
	{"a conversion is killed", false, func(s *soak) { s.signalChild("cudatrace convert ", syscall.SIGKILL) }},
	{"what asks NVML is killed", true, func(s *soak) { s.signalChild("cudatrace-gpu", syscall.SIGKILL) }},
	{"the recorder stands still for seconds", false, func(s *soak) {
		child := s.signalChild("cudatrace record ", syscall.SIGSTOP)
		time.Sleep(2 * time.Second)
		_ = syscall.Kill(child, syscall.SIGCONT)
	}},
	{"the disk is full", false, (*soak).fillDisk},
	{"the folder is read-only", false, (*soak).lockDisk},
	{"the folder is gone", false, (*soak).moveFolder},
	{"a log is cut", false, (*soak).cutLog},
	{"a log that is being written is cut", false, (*soak).cutGrowing},
	{"the service is killed", true, func(s *soak) {
		s.signalChild("cudatrace record ", 0)
		s.stop(syscall.SIGKILL)
		s.start()
	}},
	{"the service and its recorder are killed", true, func(s *soak) {
		child := s.signalChild("cudatrace record ", syscall.SIGSTOP)
		_ = s.watch.Process.Kill()
		_ = syscall.Kill(child, syscall.SIGKILL)
		s.stop(syscall.SIGKILL)
		s.start()
	}},
	{"the service is ended in a window", true, func(s *soak) {
		s.signalChild("cudatrace record ", 0)
		s.stop(syscall.SIGTERM)
		s.start()
	}},
}

// start starts the service. In every second life it takes CUPTI out of programs behind each window.
func (s *soak) start() {
	s.watch = exec.Command("cudatrace", "watch", "-o", s.folder, "--every", "1s", "--for", "200ms", "--budget", "100%",
		"--disk-limit", strconv.Itoa(soakLimit), "--convert", "pprof", "--prometheus", s.metrics)
	if s.lives++; s.lives%2 == 0 {
		s.watch.Args = append(s.watch.Args, "--detach")
	}
	s.watch.Stderr, s.watch.Stdout, s.sizes = s.said, s.said, nil
	s.program = nil
	must.Do(s.t, s.watch.Start())
}

// stop ends the service.
func (s *soak) stop(how syscall.Signal) {
	_ = s.watch.Process.Signal(how)
	if err := s.watch.Wait(); (err != nil) != (how == syscall.SIGKILL) {
		s.t.Errorf("at %s the service ended with %v\n%s", how, err, s.lastWords())
	}
}

// until waits until something holds.
func (s *soak) until(what string, holds func() bool) {
	for end := time.Now().Add(90 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("not within 90 s: %s\n%s", what, s.lastWords())
		}
	}
}

// signalChild sends a signal to a child of the service that does something.
func (s *soak) signalChild(command string, signal syscall.Signal) (child int) {
	s.until("the service starts "+command, func() bool {
		for _, child = range procfs.Children(s.watch.Process.Pid) {
			if strings.HasPrefix(procfs.CommandLine(child), command) {
				return syscall.Kill(child, signal) == nil
			}
		}
		return false
	})
	return child
}

// lines counts what the service has said.
func (s *soak) lines(text string) int {
	return strings.Count(contents(s.t, s.said.Name()), text)
}

// lastWords are the last lines of the service.
func (s *soak) lastWords() string {
	said := contents(s.t, s.said.Name())
	return said[max(len(said)-4000, 0):]
}

const (
	saidWindow   = "; the next one at "
	saidNoWindow = ": no window at "
)

// more waits for more lines of the service.
func (s *soak) more(text string, n int) {
	before := s.lines(text)
	s.until(fmt.Sprintf("%d more lines with %q", n, text), func() bool { return s.lines(text) >= before+n })
}

// recovers waits for whole windows after a fault, and looks for what the fault has left.
func (s *soak) recovers(after string) {
	s.more(saidWindow, 2)
	for _, name := range s.leftOver() {
		s.t.Errorf("%s: left is %s\n%s", after, name, s.lastWords())
	}
	if bytes := s.used(); bytes > soakLimit {
		s.t.Errorf("%s: the folder has %d bytes beside the newest window", after, bytes)
	}
	s.sizes = append(s.sizes, s.sizeOf(s.watch.Process.Pid))
	s.program = append(s.program, s.sizeOf(s.steady.cmd.Process.Pid))
}

var partialName = regexp.MustCompile(`\.partial-([0-9]+)-`)

// leftOver are files of no recorder that lives.
func (s *soak) leftOver() (names []string) {
	entries, err := os.ReadDir(s.disk)
	windows, err2 := os.ReadDir(s.folder)
	if err := errors.Join(err, err2); err != nil {
		return []string{err.Error()}
	}
	for _, e := range slices.Concat(entries, windows) {
		m := partialName.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		if pid, _ := strconv.Atoi(m[1]); syscall.Kill(pid, 0) != nil {
			if _, err := os.Lstat(filepath.Join(s.folder, e.Name())); err == nil {
				names = append(names, e.Name())
			}
		}
	}
	return names
}

// windowOf is the moment in the name of a window's file.
var windowOf = regexp.MustCompile(`-([0-9]{8}T[0-9]{6}Z)\.`)

// used is the room that the windows take, but for the newest one, which may be being made.
func (s *soak) used() (bytes int64) {
	by, newest := make(map[string]int64), ""
	_ = filepath.WalkDir(s.folder, func(path string, e fs.DirEntry, err error) error {
		m := windowOf.FindStringSubmatch(path)
		if err != nil || m == nil {
			return nil
		}
		if info, err := e.Info(); err == nil && !e.IsDir() {
			by[m[1]] += info.Sys().(*syscall.Stat_t).Blocks * 512
			newest = max(newest, m[1])
		}
		return nil
	})
	for at, n := range by {
		if at != newest {
			bytes += n
		}
	}
	s.largest.Store(max(s.largest.Load(), bytes))
	return bytes
}

// sizeOf is how large a process is now.
func (s *soak) sizeOf(pid int) (size soakSize) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	files, err2 := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	must.Do(s.t, errors.Join(err, err2))
	field := func(name string) (n int) {
		_, after, _ := strings.Cut(string(status), name+":")
		_, _ = fmt.Sscan(after, &n)
		return n
	}
	return soakSize{s.lines(saidWindow), field("RssAnon"), len(files), field("Threads")}
}

func (s *soak) fillDisk() {
	f, err := os.Create(filepath.Join(s.disk, "fill"))
	must.Do(s.t, err)
	defer os.Remove(f.Name())
	defer f.Close()
	full := func() bool { // what is removed from the folder makes room again
		_, err := f.Write(make([]byte, 1<<16))
		return errors.Is(err, syscall.ENOSPC)
	}
	before := s.lines(saidNoWindow)
	s.until("windows fail on a full disk", func() bool { return full() && s.lines(saidNoWindow) >= before+2 })
}

func (s *soak) lockDisk() {
	s.until("the file system becomes read-only", func() bool {
		return unix.Mount("", s.disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, "") == nil
	})
	s.more(saidNoWindow, 2)
	must.Do(s.t, unix.Mount("", s.disk, "", unix.MS_REMOUNT, "size="+strconv.Itoa(soakDisk)))
}

func (s *soak) moveFolder() {
	away := s.folder + ".away"
	must.Do(s.t, os.Rename(s.folder, away))
	s.more(saidNoWindow, 2)
	if err := os.Rename(away, s.folder); err != nil {
		s.t.Errorf("the folder was made anew: %v", err)
	}
}

func (s *soak) cutLog() {
	logs, err := filepath.Glob(filepath.Join(s.folder, "*.cudatrace"))
	must.Do(s.t, err)
	before := len(logs)
	s.until("there is a new log", func() bool {
		logs, _ = filepath.Glob(filepath.Join(s.folder, "*.cudatrace"))
		return len(logs) > 0 && (len(logs) != before || before > 3)
	})
	slices.SortFunc(logs, func(a, b string) int { return strings.Compare(a[len(a)-27:], b[len(b)-27:]) })
	for n, log := range logs[max(len(logs)-2, 0):] { // one may be read at this moment
		if info, err := os.Stat(log); err == nil {
			_ = os.Truncate(log, info.Size()*int64(1+n)/3) // it may just have been removed
		}
	}
}

func (s *soak) cutGrowing() {
	s.until("a log grows", func() bool {
		for _, child := range procfs.Children(s.watch.Process.Pid) {
			files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", child))
			for _, f := range files {
				path, _ := os.Readlink(f)
				info, err := os.Stat(f)
				if err == nil && strings.HasPrefix(path, s.folder+"/") && info.Size() > 100 && info.Mode().IsRegular() {
					return os.Truncate(f, info.Size()/2) == nil
				}
			}
		}
		return false
	})
}

// work has the program that lives all the time launch.
func (s *soak) work() {
	for ; !s.over.Load(); time.Sleep(20 * time.Millisecond) {
		s.steady.tell("launch 5")
	}
}

// learn runs the programs that end by themselves untraced.
func (s *soak) learn() {
	for _, args := range [][]string{
		{"exits", "return", "-n", "20000"}, {"exits", "exit", "-n", "20000", "-c", "3"}, {"exits", "abort", "-n", "20000"},
		{"exits", "segv", "-n", "20000"}, {"exits", "_exit", "-n", "20000", "-c", "5"}, {"exits", "kill", "-n", "20000"},
		{"exits", "term", "-n", "20000"}, {"exits", "exec", "-n", "20000"}, {"exits", "fork-child", "-n", "20000"},
		{"forkexec", "-n", "5000"}, {"forkafter", "-n", "5000"}, {"threads"}, {"nocuda"},
	} {
		k := &soakKind{args: append([]string{sim(args[0])}, args[1:]...)}
		k.want = soakRun(exec.Command(k.args[0], k.args[1:]...), "")
		s.kinds = append(s.kinds, k)
	}
	k := &soakKind{args: []string{sim("told")}}
	k.input = "launch 100\ncapture\ngraph 20\nchild\nalloc\nfail\nlaunch 50\nstep 300\n"
	k.want = soakRun(exec.Command(k.args[0]), k.input)
	s.kinds = append(s.kinds, k)
}

// processNumber is what no two runs have in common.
var processNumber = regexp.MustCompile(`pid=[0-9]+|process [0-9]+|0x[0-9a-f]+`)

// soakRun runs a program to its end: its outputs and how it ended.
func soakRun(cmd *exec.Cmd, input string) string {
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	lines := strings.Split(processNumber.ReplaceAllString(string(out), "N"), "\n")
	slices.Sort(lines) // processes print by turns
	return fmt.Sprintf("%v\n%s", err, strings.Join(lines, "\n"))
}

// shortLived runs programs that end by themselves.
func (s *soak) shortLived(random *rand.Rand) {
	for !s.over.Load() {
		k := s.kinds[random.IntN(len(s.kinds))]
		cmd := exec.Command("cudatrace", append([]string{"run", "--armed"}, k.args...)...)
		if got := soakRun(cmd, k.input); got != k.want {
			s.t.Errorf("%v: recorded\n%s\nalone\n%s", k.args, got, k.want)
		}
		s.ended.Add(1)
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
	}
}

// ranks are the two processes of a job, which lives for some seconds.
func (s *soak) ranks(random *rand.Rand) {
	for job := 4711; !s.over.Load(); job++ {
		var both []*soakTold
		for range 2 {
			both = append(both, s.told(fmt.Sprintf("SLURM_JOB_ID=%d", job)))
		}
		for end := time.Now().Add(time.Duration(2+random.IntN(8)) * time.Second); time.Now().Before(end) && !s.over.Load(); {
			for _, p := range both {
				p.tell("launch 3")
			}
			time.Sleep(10 * time.Millisecond)
		}
		for _, p := range both {
			p.quit()
		}
	}
}

// crashes kills programs while they are recorded.
func (s *soak) crashes() {
	for n := 0; !s.over.Load(); n++ {
		p := s.told("A=1")
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && !s.over.Load(); {
			time.Sleep(20 * time.Millisecond)
			p.tell("launch 3")
			list, err := record.ArmedProcesses()
			if err == nil && slices.ContainsFunc(list, func(a record.ArmedProcess) bool {
				return a.PID == p.cmd.Process.Pid && a.Recorded
			}) {
				s.inWindow.Add(1)
				break
			}
		}
		signal := []syscall.Signal{syscall.SIGSEGV, syscall.SIGKILL, syscall.SIGABRT, syscall.SIGTERM}[n%4]
		_ = p.cmd.Process.Signal(signal)
		err := p.cmd.Wait()
		if state, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !state.Signaled() || state.Signal() != signal {
			s.t.Errorf("a program that got %s ended with %v", signal, err)
		}
		s.ended.Add(1)
	}
}

// A soakTold is the simulated stack's told.
type soakTold struct {
	s        *soak
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      io.Reader
	launched int
}

func (s *soak) told(env string) *soakTold {
	p := &soakTold{s: s, cmd: exec.Command("cudatrace", "run", "--armed", "env", env, sim("told"))}
	var errs [3]error
	p.in, errs[0] = p.cmd.StdinPipe()
	p.out, errs[1] = p.cmd.StdoutPipe()
	errs[2] = p.cmd.Start()
	if err := errors.Join(errs[:]...); err != nil {
		s.t.Error(err)
	}
	p.expect("ready\n")
	return p
}

func (p *soakTold) expect(want string) {
	got := make([]byte, len(want))
	if _, err := io.ReadFull(p.out, got); err != nil || string(got) != want {
		p.s.t.Errorf("a program said %q, %v; want %q", got, err, want)
	}
}

func (p *soakTold) tell(line string) {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.s.t.Error(err)
	}
	p.expect("done\n")
	var n int
	_, _ = fmt.Sscanf(line, "launch %d", &n)
	p.launched += n
}

// quit has the program end: it prints what it prints alone.
func (p *soakTold) quit() {
	p.in.Close()
	rest, err := io.ReadAll(p.out)
	want := fmt.Sprintf("told failed=0 children=0\ncounts kernels=%d copies=1 sets=1\n", p.launched)
	if err := errors.Join(err, p.cmd.Wait()); err != nil || string(rest) != want {
		p.s.t.Errorf("a program ended with %v and said %q, want %q", err, rest, want)
	}
	p.s.ended.Add(1)
}

// readMetrics reads the file of metrics all the time.
func (s *soak) readMetrics() {
	for there := false; !s.over.Load(); time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(s.metrics)
		if errors.Is(err, fs.ErrNotExist) && !there {
			continue
		}
		there = true
		if err == nil && len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
			err = errors.New("its last line is cut")
		}
		if err == nil {
			err = new(prometheus.Metrics).With().Read(string(text))
		}
		if err != nil {
			s.t.Errorf("the file of metrics: %v\n%s", err, text)
			return
		}
		s.looks.Add(1)
	}
}

// finish ends all, and looks for what is left.
func (s *soak) finish(rounds int) {
	t := s.t
	s.over.Store(true)
	s.group.Wait()
	s.stop(syscall.SIGTERM)
	s.steady.quit()
	// A later cudatrace removes the folders of armed programs that have ended, a minute after they were made.
	_ = exec.Command("cudatrace", "run", "--armed", "true").Run()
	folders, err := filepath.Glob(filepath.Join(s.temporary, "cudatrace-*"))
	must.Do(t, err)
	for _, f := range folders {
		if info, err := os.Stat(f); err == nil && time.Since(info.ModTime()) > 2*time.Minute {
			t.Errorf("the folder of armed programs that have ended is left: %s", f)
		}
	}
	for reaped := 1; reaped > 0; { // children of services that were killed are ours
		reaped, _ = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
	}
	pids, err := procfs.PIDs()
	for _, pid := range pids {
		if pid != os.Getpid() {
			t.Errorf("process %d is left: %s", pid, procfs.CommandLine(pid))
		}
	}
	sockets, err2 := os.ReadFile("/proc/net/unix")
	if must.Do(t, errors.Join(err, err2)); bytes.Contains(sockets, []byte("cudatrace")) {
		t.Errorf("sockets are left:\n%s", sockets)
	}
	if pinned, err := os.ReadDir("/sys/fs/bpf"); err == nil && slices.ContainsFunc(pinned, func(e fs.DirEntry) bool {
		return strings.Contains(e.Name(), "cudatrace")
	}) {
		t.Errorf("pinned are %v", pinned)
	}
	for _, name := range s.leftOver() {
		t.Errorf("left is %s", name)
	}
	windows := s.lines(saidWindow)
	t.Logf("soak: %d rounds of %d faults, %d windows, %d failed, %d incomplete", rounds, len(soakFaults), windows,
		s.lines(saidNoWindow), s.lines(" is not complete: "))
	t.Logf("soak: %d programs ended, %d of them by a signal in a window", s.ended.Load(), s.inWindow.Load())
	t.Logf("soak: %d lives of the service; metrics read %d times; %d KiB at most in the folder, beside the newest window",
		s.lives, s.looks.Load(), s.largest.Load()>>10)
	s.sum()
	s.flat("the service", s.sizes)
	s.flat("a program", s.program)
}

var variable = regexp.MustCompile(`/[^ :]*/|[^ ]*-[0-9TZ]+(\.[A-Za-z.0-9-]+)?|pid-[0-9]+|\b[0-9][0-9.:e+-]*\b`)

// sum logs what the service has said, and how often.
func (s *soak) sum() {
	count := make(map[string]int)
	for line := range strings.Lines(contents(s.t, s.said.Name())) {
		count[variable.ReplaceAllString(strings.TrimSpace(line), "N")]++
	}
	for _, line := range slices.Sorted(maps.Keys(count)) {
		s.t.Logf("soak: %5d x %s", count[line], line)
	}
}

// flat holds the sizes of a process against those that it had when it was young.
func (s *soak) flat(name string, sizes []soakSize) {
	young, old := sizes[len(sizes)/4], sizes[len(sizes)-1]
	s.t.Logf("soak: %s: at window %d %d KiB, %d files, %d threads; at window %d %d KiB, %d files, %d threads", name,
		young.windows, young.memory, young.files, young.threads, old.windows, old.memory, old.files, old.threads)
	if old.memory > young.memory*5/4+2048 || old.files > young.files+4 || old.threads > young.threads+6 {
		s.t.Errorf("%s grows: %+v", name, sizes)
	}
}
