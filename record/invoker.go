package record

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// An invoker is the user who typed "sudo cudatrace". The program runs as the invoker, and the
// files belong to the invoker. It is nil without sudo.
type invoker struct {
	uid, gid uint32
	groups   []uint32
	env      []string // variables that sudo changed, with the invoker's values
}

// findInvoker reads the variables in which sudo names its caller. There is no invoker if a value
// is odd: a person may have set it by hand.
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

// apply makes a command run as the invoker, with the invoker's environment.
func (in *invoker) apply(cmd *exec.Cmd) {
	if in == nil {
		return
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: in.uid, Gid: in.gid, Groups: in.groups}}
	cmd.Env = in.environ(cmd.Env)
}

// environ is the invoker's environment, from ours.
func (in *invoker) environ(ours []string) []string {
	changed := append([]string{"SUDO_COMMAND=", "SUDO_USER=", "SUDO_UID=", "SUDO_GID="}, in.env...)
	env := make([]string, 0, len(ours))
	for _, e := range ours {
		if !sets(changed, e) {
			env = append(env, e)
		}
	}
	return append(env, in.env...)
}

// become makes this process the invoker's, and returns the invoker's environment.
func (in *invoker) become(ours []string) ([]string, error) {
	if in == nil {
		return ours, nil
	}
	groups := make([]int, len(in.groups))
	for i, g := range in.groups {
		groups[i] = int(g)
	}
	err := syscall.Setgroups(groups)
	if err == nil {
		err = syscall.Setgid(int(in.gid))
	}
	if err == nil {
		err = syscall.Setuid(int(in.uid))
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

// Own gives a file to the user who called sudo. If that fails, the file stays root's: the user
// can see that and change it.
func Own(path string) {
	if in := findInvoker(); in != nil {
		os.Lchown(path, int(in.uid), int(in.gid))
	}
}
