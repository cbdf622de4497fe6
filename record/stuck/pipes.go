package stuck

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/procfs"
)

// descriptorsMost bounds the descriptors of all processes that are looked at.
const descriptorsMost = 1 << 20

// pipes know which processes have open the ends of pipes and of sockets. All processes are looked at once, when
// somebody asks.
type pipes struct {
	ends map[string][]end // by what a descriptor leads to, "pipe:[123]" or "socket:[123]"
}

type end struct {
	pid, fd int
	mode    int // as open takes it, of one that was asked for: it stays
	asked   bool
}

const socketPrefix = "socket:["

// leadsTo names the pipe or socket of a descriptor, "" if it is neither.
func leadsTo(pid, fd int) string {
	to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
	if err != nil || !strings.HasPrefix(to, "pipe:") && !strings.HasPrefix(to, socketPrefix) {
		return ""
	}
	return to
}

// otherEnd names the pipe of a descriptor, or the socket at the other end of its UNIX socket; "" if it is neither, or
// has none.
func otherEnd(pid, fd int) string {
	to := leadsTo(pid, fd)
	number, isSocket := strings.CutPrefix(to, socketPrefix)
	if !isSocket {
		return to
	}
	inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 32)
	if err != nil {
		return ""
	}
	peer := peerOf(uint32(inode))
	if peer == 0 {
		return ""
	}
	return fmt.Sprintf("%s%d]", socketPrefix, peer)
}

// peerOf asks the kernel which UNIX socket is at the other end of one, by their inodes. 0: it is none, or belongs to
// another network namespace, or the kernel does not tell. Linux: linux/unix_diag.h.
func peerOf(inode uint32) (peer uint32) {
	const (
		byFamily, showPeer, peerAttribute = 20, 4, 2
		headSize, requestSize, answerSize = unix.SizeofNlMsghdr, 24, 16
	)
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	ne := binary.NativeEndian
	request := make([]byte, headSize+requestSize)
	ne.PutUint32(request, uint32(len(request)))
	ne.PutUint16(request[4:], byFamily)
	ne.PutUint16(request[6:], unix.NLM_F_REQUEST)
	ask := request[headSize:]
	ask[0] = unix.AF_UNIX
	ne.PutUint32(ask[4:], ^uint32(0)) // all states
	ne.PutUint32(ask[8:], inode)
	ne.PutUint32(ask[12:], showPeer)
	ne.PutUint64(ask[16:], ^uint64(0)) // any cookie
	if unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) != nil {
		return 0
	}
	answer := make([]byte, 4096)
	// the kernel has answered in Sendto
	n, _, err := unix.Recvfrom(fd, answer, unix.MSG_DONTWAIT)
	// anybody may send to that
	if err != nil || n < headSize+answerSize || ne.Uint16(answer[4:]) != byFamily ||
		answer[headSize+1] == unix.SOCK_DGRAM {
		return 0
	}
	for b := answer[headSize+answerSize : n]; len(b) >= 8; {
		size := int(ne.Uint16(b))
		if ne.Uint16(b[2:]) == peerAttribute {
			return ne.Uint32(b[4:])
		}
		b = b[min(max((size+3)&^3, 4), len(b)):]
	}
	return 0
}

// has reports whether a process itself has the writing end of a pipe, or the reading one, or a socket.
func (p *pipes) has(pipe string, pid int, writing bool) bool {
	ends := p.ends[pipe]
	for i := range ends {
		if e := &ends[i]; e.pid == pid && e.isFor(writing) {
			return true
		}
	}
	return false
}

// others lists the processes beside one that have the writing end of a pipe, or the reading one, or a socket, as far as
// this user may know.
func (p *pipes) others(pipe string, pid int, writing bool) (list []int) {
	if p.ends == nil {
		p.look()
	}
	ends := p.ends[pipe]
	for i := range ends {
		if e := &ends[i]; e.pid != pid && !slices.Contains(list, e.pid) && e.isFor(writing) {
			list = append(list, e.pid)
		}
	}
	return list
}

// isFor reports whether a descriptor is open for writing, or for reading.
func (e *end) isFor(writing bool) bool {
	if !e.asked {
		e.asked, e.mode = true, e.read()
	}
	return e.mode == unix.O_RDWR || e.mode == unix.O_WRONLY && writing || e.mode == unix.O_RDONLY && !writing
}

// read returns how a descriptor is open, -1 if that is not known.
func (e *end) read() int {
	flags := aboutDescriptor(e.pid, e.fd, "flags:", 8)
	if flags < 0 {
		return -1
	}
	return int(flags & unix.O_ACCMODE)
}

// aboutDescriptor is a number that the kernel tells of a descriptor, -1 if it is not known.
func aboutDescriptor(pid, fd int, name string, base int) int64 {
	text, err := procfs.Read(fmt.Sprintf("/proc/%d/fdinfo/%d", pid, fd), procfs.MaxFacts)
	if err != nil {
		return -1
	}
	_, rest, _ := bytes.Cut(text, []byte(name))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return -1
	}
	n, err := strconv.ParseInt(string(fields[0]), base, 64)
	if err != nil {
		return -1
	}
	return n
}

func (p *pipes) look() {
	p.ends = map[string][]end{}
	pids, err := procfs.PIDs()
	if err != nil {
		return
	}
	looked := 0
	for _, pid := range pids {
		dir, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd", pid), os.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			continue // it has ended, or is another user's
		}
		names, _ := dir.Readdirnames(descriptorsMost - looked)
		_ = dir.Close()
		for _, name := range names {
			fd, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			if pipe := leadsTo(pid, fd); pipe != "" {
				p.ends[pipe] = append(p.ends[pipe], end{pid: pid, fd: fd})
			}
		}
		if looked += len(names); looked >= descriptorsMost {
			return
		}
	}
}
