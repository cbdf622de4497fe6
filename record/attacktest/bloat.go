package attacktest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/pipetest"
)

// bloatVariable says as which user this process is to run, and how long its environment and its arguments are to be, in
// bytes.
const bloatVariable = "CUDATRACE_BLOAT"

// A Bloated is a process whose environment and arguments seem to have many bytes: memory that is never touched, behind
// a first variable or argument. No rights are needed for that.
type Bloated struct {
	User  int // as whom root starts it; who is not root starts it as oneself
	Bytes uint64
	First string
}

// Start starts the process, which runs a command that calls [Bloats]; without one it runs the test again.
func (b Bloated) Start(t *testing.T, command ...string) (pid int) {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+test+"$")
	if len(command) > 0 {
		cmd = exec.Command(command[0], command[1:]...)
	}
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d:%d:%s", bloatVariable, b.User, b.Bytes, b.First))
	cmd.Dir = "/"
	input, output := pipetest.Start(t, cmd)
	if said, err := bufio.NewReader(output).ReadString('\n'); said != "ready\n" {
		t.Fatalf("the process said %q, %v", said, err)
	}
	t.Cleanup(func() {
		input.Close()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// Bloats reports whether this process is a [Bloated]: then it returns when the test is over that started it.
func Bloats() bool {
	words := strings.SplitN(os.Getenv(bloatVariable), ":", 3)
	if len(words) < 3 {
		return false
	}
	user, err1 := strconv.Atoi(words[0])
	size, err2 := strconv.ParseUint(words[1], 10, 62)
	err := errors.Join(err1, err2)
	if err == nil && os.Getuid() == 0 {
		err = syscall.Setuid(user)
	}
	if err == nil {
		err = bloat(int(size), words[2])
	}
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return true
}

// memoryMap is struct prctl_mm_map of linux/prctl.h.
type memoryMap struct {
	startCode, endCode, startData, endData, startBreak, endBreak, startStack, startArgs, endArgs, startEnv, endEnv uint64
	vector                                                                                                         uint64
	vectorSize, executable                                                                                         uint32
}

func bloat(size int, first string) error {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	field := func(n int) uint64 { // by its number in proc(5)
		v, parseErr := strconv.ParseUint(fields[n-3], 10, 64)
		if parseErr != nil {
			err = parseErr
		}
		return v
	}
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return err
	}
	copy(memory, first+"\x00")
	from := uint64(uintptr(unsafe.Pointer(&memory[0])))
	to := from + uint64(size)
	end, _, _ := unix.Syscall(unix.SYS_BRK, 0, 0, 0)
	m := memoryMap{
		startCode: field(26), endCode: field(27), startStack: field(28), startData: field(45), endData: field(46),
		startBreak: field(47),
		endBreak:   uint64(end), startArgs: from, endArgs: to, startEnv: from, endEnv: to,
		executable: ^uint32(0),
	}
	if err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_MM, unix.PR_SET_MM_MAP, uintptr(unsafe.Pointer(&m)), unsafe.Sizeof(m), 0)
}
