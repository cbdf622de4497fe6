package browser

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// launchers are the programs that open an address in the browser that the user prefers.
var launchers = []string{"xdg-open", "wslview", "x-www-browser"}

// Launch opens an address in the browser of this machine. ok is false if there is no display, or no
// program that knows the browser.
func Launch(address string, env []string) (ok bool) {
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return false
	}
	for _, name := range launchers {
		cmd := exec.Command(name, address)
		cmd.Env = env
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is for us, not for the browser
		if cmd.Start() == nil {
			go func() { _ = cmd.Wait() }() // what a browser makes of it, a person sees
			return true
		}
	}
	return false
}

// Tunnel is the command that makes a port of this machine one of the machine where a person sits.
func Tunnel(port int) string {
	name := ""
	if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil {
		name = u.Username
	}
	host, _ := os.Hostname()
	option := ""
	// SSH_CONNECTION has the client's address and port and this machine's, as the client knows it.
	if of := strings.Fields(os.Getenv("SSH_CONNECTION")); len(of) == 4 {
		host = of[2]
		if of[3] != "22" {
			option = "-p " + of[3] + " "
		}
	}
	return fmt.Sprintf("ssh %s-N -L %d:127.0.0.1:%d %s@%s", option, port, port, cmp.Or(name, "USER"), cmp.Or(host, "HOST"))
}
