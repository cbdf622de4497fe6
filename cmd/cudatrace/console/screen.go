package console

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/figures"
)

// A Screen has a whole terminal. Close gives the terminal back as it was.
type Screen struct {
	tty   *os.File
	modes *unix.Termios // of the terminal before; nil where keys are not read
	mu    sync.Mutex
	on    bool
}

// A Line is a line of a screen. Its text is not safe yet.
type Line struct {
	Text  string
	Style Style
}

// A Style is the look of a text on a terminal.
type Style string

// The styles.
const (
	Plain   Style = ""
	Bold    Style = "\x1b[1m"
	Reverse Style = "\x1b[7m"
	Faint   Style = "\x1b[2m"
	Good    Style = "\x1b[32m"
	Bad     Style = "\x1b[31m"

	noStyle = "\x1b[0m"
)

const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l" // another screen, without a cursor, long lines are cut
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// errBackground says that the terminal belongs to another job of the shell.
var errBackground = errors.New("this program does not run in the foreground")

// OpenScreen takes a terminal. With keys it reads each key as it is pressed, without showing it.
func OpenScreen(tty *os.File, keys bool) (*Screen, error) {
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return nil, err
	}
	if group != unix.Getpgrp() {
		return nil, errBackground
	}
	s := &Screen{tty: tty}
	if keys {
		if s.modes, err = unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS); err != nil {
			return nil, err
		}
	}
	return s, s.Resume()
}

// Resume takes the terminal again after Close.
func (s *Screen) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on {
		return nil
	}
	if s.modes != nil {
		raw := *s.modes
		raw.Lflag &^= unix.ICANON | unix.ECHO // Ctrl-C and Ctrl-Z stay signals
		raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
		if err := unix.IoctlSetTermios(int(s.tty.Fd()), unix.TCSETS, &raw); err != nil {
			return err
		}
	}
	s.on = true
	_, err := s.tty.WriteString(enterScreen)
	return err
}

// Close gives the terminal back. A second call does nothing.
func (s *Screen) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.on {
		return nil
	}
	s.on = false
	return restore(s.tty, s.modes)
}

func restore(tty *os.File, modes *unix.Termios) error {
	_, err := tty.WriteString(leaveScreen)
	if modes != nil {
		err = errors.Join(err, unix.IoctlSetTermios(int(tty.Fd()), unix.TCSETS, modes))
	}
	return err
}

// Guard returns a function that gives a terminal back as it is now, after a process that had it was killed.
func Guard(tty *os.File) (func() error, error) {
	modes, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	return func() error { return restore(tty, modes) }, err
}

// Size is the number of columns and lines, 80 and 24 where the terminal does not tell.
func (s *Screen) Size() (width, height int) {
	size, err := unix.IoctlGetWinsize(int(s.tty.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 {
		return 80, 24
	}
	return int(size.Col), int(size.Row)
}

// Draw shows lines in place of those before.
func (s *Screen) Draw(lines []Line) error {
	width, height := s.Size()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.on {
		return nil
	}
	_, err := s.tty.WriteString(frame(lines, width, height))
	return err
}

// frame is what shows lines on a screen.
func frame(lines []Line, width, height int) string {
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, l := range lines[:min(len(lines), height)] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("\x1b[K" + string(l.Style) + figures.Cut(Escape(l.Text), width))
		if l.Style != Plain {
			b.WriteString("\x1b[0m")
		}
	}
	if len(lines) < height {
		b.WriteString("\r\n\x1b[J")
	}
	return b.String()
}

// Keys returns the keys that are pressed, each as the bytes that the terminal sends for it, until the
// terminal is gone.
func (s *Screen) Keys() <-chan string {
	keys := make(chan string)
	go func() {
		defer close(keys)
		b := make([]byte, 64)
		for {
			n, err := s.tty.Read(b)
			if err != nil || n == 0 {
				return
			}
			for _, key := range split(string(b[:n])) {
				keys <- key
			}
		}
	}()
	return keys
}

// split takes keys apart: ESC with what follows is one key, and so is each other character.
func split(text string) (keys []string) {
	if strings.HasPrefix(text, "\x1b") {
		return []string{text}
	}
	for _, r := range text {
		keys = append(keys, string(r))
	}
	return keys
}

// Terminal returns standard output if it is a terminal, else nil.
func (c *Console) Terminal() *os.File {
	if f, ok := c.out.w.(*os.File); ok && IsTerminal(f) {
		return f
	}
	return nil
}

// OnTerminal reports whether standard output or standard error is a terminal.
func (c *Console) OnTerminal() bool { return IsTerminal(c.out.w) || IsTerminal(c.err.w) }

// Outputs are standard output and standard error, for a process of our own that writes by a console.
func (c *Console) Outputs() (out, err io.Writer) { return c.out.w, c.err.w }
