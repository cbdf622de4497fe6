package browser

import (
	"cmp"
	"fmt"
	"html"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// launchers are the programs that open an address in the browser that the user prefers.
var launchers = []string{"xdg-open", "wslview", "x-www-browser"}

// Launch opens the address in the browser of this machine. ok is false if there is no display, or no program that knows
// the browser. Everybody on the machine can read with what a program was started. So the program gets no address, but a
// file that leads there, and that nobody else can read; Run removes it.
func (s *Server) Launch(env []string) (ok bool, err error) {
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return false, nil
	}
	path, err := s.writeRedirect(redirectFolders("/snap", env))
	if err != nil {
		return false, err
	}
	for _, name := range launchers {
		cmd := exec.Command(name, path)
		cmd.Env = env
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is for us, not for the browser
		if cmd.Start() == nil {
			go func() { _ = cmd.Wait() }() // what a browser makes of it, a person sees
			return true, nil
		}
	}
	return false, nil
}

// redirectPage leads to an address.
const redirectPage = `<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url=%s">
<title>cudatrace</title>
`

// writeRedirect writes the page that leads to the address, in a new folder of the first of some folders where that is
// possible.
func (s *Server) writeRedirect(folders []string) (path string, err error) {
	for _, in := range folders {
		if s.redirect, err = os.MkdirTemp(in, "cudatrace-open-"); err == nil {
			path = filepath.Join(s.redirect, "open.html")
			return path, os.WriteFile(path, fmt.Appendf(nil, redirectPage, html.EscapeString(s.Address())), 0o600)
		}
	}
	return "", err
}

// redirectFolders lists where the browser may see a file, best first. One that snap installed has its own /tmp, and
// sees the user's folder.
func redirectFolders(snaps string, env []string) (folders []string) {
	if _, err := os.Stat(snaps); err == nil {
		for _, e := range env {
			if home, ok := strings.CutPrefix(e, "HOME="); ok && home != "" {
				folders = append(folders, home)
			}
		}
	}
	return append(folders, os.TempDir())
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
