package procfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pipetest"
)

const exampleMaps = `55d0c0a00000-55d0c0a01000 r--p 00000000 fd:01 100                        /usr/bin/app
55d0c0a01000-55d0c0a02000 r-xp 00001000 fd:01 100                        /usr/bin/app
7f0000000000-7f0000001000 r-xp 00000000 fd:01 200                        /opt/with space/libcuda.so.1
7f0000002000-7f0000003000 r-xp 00000000 fd:02 200                        /tmp/libcudart.so.13 (deleted)
7f0000003000-7f0000004000 rw-p 00000000 00:00 0 
7f0000004000-7f0000005000 r-xp 00000000 00:00 0                          [vdso]
7f0000005000-7f0000006000 r-xp 00000000 00:01 1024                       /memfd:jit (deleted)
7f0000006000-7f0000007000 r-xs 00000000 00:05 7                          anon_inode:thing
cut short
`

func TestParseMappings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "maps")
	must.Do(t, os.WriteFile(path, []byte(exampleMaps), 0o600))
	data := Mapping{FileID{"fd:01", 100}, 0x55d0c0a00000, 0x55d0c0a01000, 0, "/usr/bin/app", false}
	code := []Mapping{
		{FileID{"fd:01", 100}, 0x55d0c0a01000, 0x55d0c0a02000, 0x1000, "/usr/bin/app", false},
		{FileID{"fd:01", 200}, 0x7f0000000000, 0x7f0000001000, 0, "/opt/with space/libcuda.so.1", false},
		{FileID{"fd:02", 200}, 0x7f0000002000, 0x7f0000003000, 0, "/tmp/libcudart.so.13", true},
		{FileID{"00:01", 1024}, 0x7f0000005000, 0x7f0000006000, 0, "/memfd:jit", true},
	}
	vdso := Mapping{FileID{"00:00", 0}, 0x7f0000004000, 0x7f0000005000, 0, "[vdso]", false}
	odd := Mapping{FileID{"00:05", 7}, 0x7f0000006000, 0x7f0000007000, 0, "anon_inode:thing", false}
	for _, c := range []struct {
		name   string
		wanted func([]byte) bool
		want   []Mapping
	}{
		{"files", showsFile, append([]Mapping{data}, code...)},
		{"files of code", isCode, code},
		{"code", isExecutable, append(slices.Insert(slices.Clone(code), 3, vdso), odd)},
	} {
		var got []Mapping
		for m, err := range parseMappings(lines(path, maxMaps), c.wanted) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, m)
		}
		goldentest.Same(t, c.want, got, "%s", c.name)
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add("7f0000000000-7f0000001000 r-xp 00000000 fd:01 200    /lib/libcuda.so.1")
	f.Add("7f0000000000-7f0000001000 r-xp 00000000 fd:01 200    /lib/x (deleted)")
	f.Add("- x 0 0 1 /")
	f.Add("")
	f.Fuzz(func(t *testing.T, line string) {
		isCode([]byte(line))
		parseLine(line)
	})
}

// The files that are mapped as code are mapped files, each is listed once, and this
// program is among them.
func TestFilesOfThisProcess(t *testing.T) {
	self := must.Get(os.Executable())(t)
	files, err := Files(os.Getpid())
	if err != nil || !slices.Contains(files, self) {
		t.Errorf("mapped files %q, %v", files, err)
	}
	code, err := CodeFiles(os.Getpid())
	if err != nil || !slices.ContainsFunc(code, func(m Mapping) bool { return m.Path == self }) {
		t.Errorf("files mapped as code %+v, %v", code, err)
	}
	seen := map[FileID]bool{}
	for _, m := range code {
		if seen[m.File] || !slices.Contains(files, m.Path) {
			t.Errorf("file %+v of %q", m, files)
		}
		seen[m.File] = true
	}
}

func TestAround(t *testing.T) {
	code := []Mapping{{From: 100, To: 200}, {From: 200, To: 210}, {From: 300, To: 400}}
	for address, want := range map[uint64]int{99: -1, 100: 0, 199: 0, 200: 1, 209: 1, 210: -1, 299: -1, 300: 2, 399: 2, 400: -1} {
		if got := Around(code, address); want < 0 && got != nil || want >= 0 && got != &code[want] {
			t.Errorf("at %d: %+v", address, got)
		}
	}
}

func TestFindMapping(t *testing.T) {
	fd := must.Get(unix.MemfdCreate("maps-file", unix.MFD_CLOEXEC))(t)
	defer unix.Close(fd)
	var s unix.Stat_t
	must.Do(t, errors.Join(unix.Ftruncate(fd, 4096), unix.Fstat(fd, &s)))
	maps := func(inode uint64) bool {
		m, ok := FindMapping(os.Getpid(), "/memfd:maps-file", inode)
		return ok && m.File.Inode == inode
	}
	if maps(s.Ino) {
		t.Error("it is not mapped yet")
	}
	page := must.Get(unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED))(t)
	defer unix.Munmap(page)
	if !maps(s.Ino) || maps(s.Ino+1) {
		t.Error("it is mapped, and no other")
	}
}

// Where map_files can't be used, the file of that name is taken if it is the same.
func TestOpenByPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	must.Do(t, os.WriteFile(path, []byte("here"), 0o644))
	var st unix.Stat_t
	must.Do(t, unix.Stat(path, &st))
	m := Mapping{File: FileID{"00:00", st.Ino}, From: 1, To: 2, Path: path}
	f := must.Get(m.Open(os.Getpid()))(t)
	f.Close()
	m.File.Inode++
	var where unix.Statfs_t
	if unix.Statfs(path, &where); where.Type == unix.OVERLAYFS_SUPER_MAGIC {
		t.Skip("an overlay file system shows other inodes")
	}
	if _, err := m.Open(os.Getpid()); err == nil || !strings.Contains(err.Error(), "has been replaced") {
		t.Errorf("error %v", err)
	}
}

func TestStatusNumber(t *testing.T) {
	const status = "Name:\tx VmLib: 9\nVmExe:\t     12 kB\nVmLib:\t   34567 kB\nVmPTE:\n"
	for key, want := range map[string]uint64{"VmExe:": 12, "VmLib:": 34567, "VmPTE:": 0, "VmSwap:": 0} {
		if got := statusNumber([]byte(status), key); got != want {
			t.Errorf("%s %d, want %d", key, got, want)
		}
	}
	if size, err := CodeSize(os.Getpid()); err != nil || size == 0 {
		t.Errorf("this program has %d KiB of code, %v", size, err)
	}
}

func TestDescribe(t *testing.T) {
	child := exec.Command("cat", "-")
	in, out := pipetest.Start(t, child)
	fmt.Fprintln(in, "runs")
	var word string
	if _, err := fmt.Fscanln(out, &word); err != nil { // until then it may be about to become cat
		t.Fatal(err)
	}
	pid := child.Process.Pid
	p := Describe(pid)
	if !filepath.IsAbs(p.Executable) || p.Args != "cat\x00-" || p.Parent != uint32(os.Getpid()) {
		t.Errorf("it is %+v", p)
	}
	if name := Name(pid); name != filepath.Base(p.Executable) {
		t.Errorf("its name is %q", name)
	}
	for tid, name := range ThreadNames(uint32(pid)) {
		if tid != uint32(pid) || name != "cat" {
			t.Errorf("thread %d is called %q", tid, name)
		}
	}
	if id := NamespaceTID(uint32(pid), uint32(pid)); id != 0 {
		t.Errorf("it is %d in its namespace, which is ours", id)
	}
	in.Close()
	child.Wait()
	if p := Describe(pid); p != (Process{}) || Name(pid) != "" {
		t.Errorf("when it has ended, it is %+v", p)
	}
}

func TestSurroundings(t *testing.T) {
	own := os.Getpid()
	cwd := must.Get(os.Getwd())(t)
	if p := Describe(own); p.Folder != cwd || !WorksIn(own, cwd) || WorksIn(own, "/") || WorksIn(own, "/no/such") {
		t.Errorf("%+v works in %s", p, cwd)
	}
	cmd := exec.Command("cat")
	cmd.Env = []string{"RANK=1", "EMPTY=", "LINES=a\nb"}
	in, out := pipetest.Start(t, cmd)
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	must.Get(in.Write([]byte("\n")))(t)
	if _, err := out.Read(make([]byte, 1)); err != nil { // it runs the new program
		t.Fatal(err)
	}
	if got, err := Environment(cmd.Process.Pid); err != nil || !slices.Equal(got, cmd.Env) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Environment(1 << 30); err == nil {
		t.Error("there is no such process")
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
		is   error
	}{
		{explain(9, unix.ESRCH), "process 9 has ended", fs.ErrNotExist},
		{explain(9, unix.EACCES), "process 9 ", fs.ErrPermission},
		{explain(9, unix.EIO), "reading the memory map of process 9", unix.EIO},
	} {
		if !strings.Contains(c.err.Error(), c.want) || !errors.Is(c.err, c.is) {
			t.Errorf("%q lacks %q, or is no %v", c.err, c.want, c.is)
		}
	}
	if _, err := CodeFiles(1 << 30); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no process: %v", err)
	}
}

// A process has children and a user.
func TestChildren(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	defer cmd.Wait()
	defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	must.Get(out.Read(make([]byte, 1)))(t)
	if all := Children(os.Getpid()); !slices.Contains(all, cmd.Process.Pid) || len(Children(cmd.Process.Pid)) != 1 {
		t.Errorf("the children of %d are %v, those of its child %v", os.Getpid(), all, Children(cmd.Process.Pid))
	}
	if user, ok := User(cmd.Process.Pid); !ok || int(user) != os.Geteuid() {
		t.Errorf("user %d, %v", user, ok)
	}
	if _, ok := User(1 << 30); ok {
		t.Error("a process that is not there has a user")
	}
}

// What the scheduler and the kernel's memory say of this process and thread grows.
func TestUsage(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, tid := uint32(os.Getpid()), uint32(unix.Gettid())
	before, ok1 := ThreadSchedule(pid, tid)
	minor, _, ok2 := Faults(pid)
	if !ok1 || !ok2 || before.Ran == 0 || minor == 0 {
		t.Fatalf("%+v %t, %d faults %t", before, ok1, minor, ok2)
	}
	if !slices.Contains(slices.Collect(Threads(pid)), tid) {
		t.Errorf("thread %d is not listed", tid)
	}
	if _, ok := ThreadSchedule(pid, 1<<30); ok {
		t.Error("a thread that is not there has a schedule")
	}
	if _, _, ok := Faults(1 << 30); ok {
		t.Error("a process that is not there has page faults")
	}
}

// A subshell runs its parent's program; the shell itself has been run by exec.
func TestStatOf(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", "(read line) <&3 & echo $!; wait")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { w.Close(); _ = cmd.Wait() }()
	cmd.ExtraFiles = []*os.File{r}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	r.Close()
	if err != nil {
		t.Fatal(err)
	}
	var child int
	must.Get(fmt.Fscan(out, &child))(t)
	own, ok1 := StatOf(cmd.Process.Pid)
	its, ok2 := StatOf(child)
	if !ok1 || !ok2 || !its.Forked || its.Parent != cmd.Process.Pid || own.Forked || own.Parent != os.Getpid() || its.Ended || its.Start < own.Start {
		t.Errorf("the shell %d: %+v, its child: %+v", cmd.Process.Pid, own, its)
	}
	if _, ok := StatOf(-1); ok {
		t.Error("a process that is not there has a Stat")
	}
	w.Close()
	for since := time.Now(); !own.Ended; own, ok1 = StatOf(cmd.Process.Pid) {
		if !ok1 || time.Since(since) > time.Minute {
			t.Fatalf("%t, %+v after its end, for which nobody has waited", ok1, own)
		}
		time.Sleep(time.Millisecond)
	}
	if own.ChildFaults == 0 {
		t.Error("the shell's child had no page faults")
	}
}
