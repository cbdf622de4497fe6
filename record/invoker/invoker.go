// Package invoker knows the user who typed "sudo cudatrace". Input: the environment. Output: a program,
// or work on files, with that user's rights instead of root's.
package invoker

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An Invoker is the user who typed "sudo cudatrace". The program runs as the invoker, and the files
// belong to the invoker. It is nil without sudo.
type Invoker struct {
	UID, GID uint32
	groups   []uint32
	env      []string // variables that sudo changed, with the invoker's values
}

// Find reads the variables in which sudo names its caller. There is no invoker if a value is odd: a
// person may have set it by hand.
func Find() *Invoker {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, errUID := strconv.ParseUint(os.Getenv("SUDO_UID"), 10, 32)
	gid, errGID := strconv.ParseUint(os.Getenv("SUDO_GID"), 10, 32)
	if errUID != nil || errGID != nil || uid == 0 {
		return nil
	}
	in := &Invoker{UID: uint32(uid), GID: uint32(gid)}
	u, err := user.LookupId(strconv.FormatUint(uid, 10))
	if err != nil {
		return in // the user is not in passwd, so there are no further groups and no home
	}
	in.env = []string{"HOME=" + u.HomeDir, "USER=" + u.Username, "LOGNAME=" + u.Username}
	ids, err := u.GroupIds()
	if err != nil {
		return in
	}
	for _, id := range ids {
		if g, err := strconv.ParseUint(id, 10, 32); err == nil {
			in.groups = append(in.groups, uint32(g))
		}
	}
	return in
}

// User is the user as whom programs run: the invoker, or without one our own.
func (in *Invoker) User() uint32 {
	if in == nil {
		return uint32(os.Geteuid())
	}
	return in.UID
}

// Credential is for a process that runs as the invoker; nil without one.
func (in *Invoker) Credential() *syscall.Credential {
	if in == nil {
		return nil
	}
	return &syscall.Credential{Uid: in.UID, Gid: in.GID, Groups: in.groups}
}

// Apply makes a command run as the invoker, with the invoker's environment.
func (in *Invoker) Apply(cmd *exec.Cmd) {
	if in == nil {
		return
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: in.Credential()}
	cmd.Env = in.environ(cmd.Env)
}

// environ is the invoker's environment, from ours.
func (in *Invoker) environ(ours []string) []string {
	changed := append([]string{"SUDO_COMMAND=", "SUDO_USER=", "SUDO_UID=", "SUDO_GID="}, in.env...)
	env := make([]string, 0, len(ours))
	for _, e := range ours {
		if !sets(changed, e) {
			env = append(env, e)
		}
	}
	return append(env, in.env...)
}

// Become makes this process the invoker's, and returns the invoker's environment.
func (in *Invoker) Become(ours []string) ([]string, error) {
	if in == nil {
		return ours, nil
	}
	groups := make([]int, len(in.groups))
	for i, g := range in.groups {
		groups[i] = int(g)
	}
	err := syscall.Setgroups(groups)
	if err == nil {
		err = syscall.Setgid(int(in.GID))
	}
	if err == nil {
		err = syscall.Setuid(int(in.UID))
	}
	return in.environ(ours), err
}

func sets(changed []string, setting string) bool {
	for _, c := range changed {
		name, _, _ := strings.Cut(c, "=")
		if strings.HasPrefix(setting, name+"=") {
			return true
		}
	}
	return false
}

// Do calls a function with the invoker's rights to files: the kernel checks each access, and each new file belongs to
// the invoker. What the function opens stays open. The function starts no program and no goroutine: these would have
// our own rights. Without an invoker the rights are our own.
func (in *Invoker) Do(f func() error) error {
	if in == nil {
		return f()
	}
	done := make(chan error)
	go in.do(f, done)
	return <-done
}

func (in *Invoker) do(f func() error, done chan<- error) {
	runtime.LockOSThread() // for good: the thread ends with the goroutine, and its rights with it
	if unix.Gettid() == unix.Getpid() {
		defer runtime.UnlockOSThread()
		other := make(chan error) // the first thread ends with the process only; while it waits here, it is not the other
		go in.do(f, other)
		done <- <-other
		return
	}
	err := in.enter()
	if err == nil {
		err = f()
	}
	done <- err
}

// enter gives the calling thread the invoker's rights to files.
func (in *Invoker) enter() error {
	ids := append([]uint32{in.GID}, in.groups...)
	// The thread's own groups: syscall.Setgroups would change those of all threads.
	if _, _, no := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(ids)), uintptr(unsafe.Pointer(&ids[0])), 0); no != 0 {
		return fmt.Errorf("the groups of user %d cannot be taken: %w", in.UID, no)
	}
	_, _ = unix.SetfsgidRetGid(int(in.GID)) // these two never fail, but may do nothing
	_, _ = unix.SetfsuidRetUid(int(in.UID))
	gid, _ := unix.SetfsgidRetGid(-1)
	uid, _ := unix.SetfsuidRetUid(-1)
	if uint32(gid) != in.GID || uint32(uid) != in.UID {
		return fmt.Errorf("the rights of user %d cannot be taken", in.UID)
	}
	// What is left are capabilities that have to do with other things than files: those over processes open their files in
	// /proc. The system call is that of the thread alone.
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("root's rights cannot be given up: %w", err)
	}
	return nil
}
