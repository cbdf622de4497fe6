package record

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// An invoker is the user who typed "sudo cudatrace": the program runs as that user, who
// owns the files. It is nil if nobody did.
type invoker struct {
	uid, gid uint32
	groups   []uint32
	env      []string // what sudo changed, as it was
}

// findInvoker reads the variables in which sudo names its caller. A person may set them by
// hand, too: anything odd in them means that there is no invoker.
func findInvoker() *invoker {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, errUID := strconv.ParseUint(os.Getenv("SUDO_UID"), 10, 32)
	gid, errGID := strconv.ParseUint(os.Getenv("SUDO_GID"), 10, 32)
	if errUID != nil || errGID != nil || uid == 0 {
		return nil
	}
	in := &invoker{uid: uint32(uid), gid: uint32(gid)}
	u, err := user.LookupId(strconv.FormatUint(uid, 10))
	if err != nil {
		return in // a user without an entry in passwd: no further groups, no home
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

// apply makes the program run as the invoker, in the invoker's environment.
func (in *invoker) apply(cmd *exec.Cmd) {
	if in == nil {
		return
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: in.uid, Gid: in.gid, Groups: in.groups}}
	changed := append([]string{"SUDO_COMMAND=", "SUDO_USER=", "SUDO_UID=", "SUDO_GID="}, in.env...)
	env := make([]string, 0, len(cmd.Env))
	for _, e := range cmd.Env {
		if !sets(changed, e) {
			env = append(env, e)
		}
	}
	cmd.Env = append(env, in.env...)
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

// Own gives a file that was made with sudo to the user who called sudo. If that fails the
// file stays root's, which the user can see and mend.
func Own(path string) {
	if in := findInvoker(); in != nil {
		os.Lchown(path, int(in.uid), int(in.gid))
	}
}
