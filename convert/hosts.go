package convert

import (
	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A host is a boot of a machine: its logs have one CLOCK_MONOTONIC, also those of its containers and of its time
// namespaces.
type host struct {
	name, boot string
	logs       []*log
	clocks     read.Clocks // the readings in all logs
}

// sameBoot is the largest change of the wall clock, in ns, between two logs without boot IDs that are of one host
// and of one boot.
const sameBoot = 60e9

// hostsOf groups logs by host, in the order of the logs.
func hostsOf(logs []*log) (hosts []*host) {
	for _, l := range logs {
		h := hostOf(hosts, l)
		if h == nil {
			h = &host{name: l.catalog.Meta[tracelog.MetaHost], boot: l.catalog.Meta[tracelog.MetaBoot]}
			hosts = append(hosts, h)
		}
		h.logs = append(h.logs, l)
		h.clocks.Join(&l.catalog.Clocks)
	}
	return hosts
}

func hostOf(hosts []*host, l *log) *host {
	for _, h := range hosts {
		if h.has(l) {
			return h
		}
	}
	return nil
}

// has reports whether a log is of the host.
func (h *host) has(l *log) bool {
	if boot := l.catalog.Meta[tracelog.MetaBoot]; h.boot != "" && boot != "" {
		return boot == h.boot
	}
	k := &l.catalog.Clocks
	return h.clocks.Known && k.Known && h.name == l.catalog.Meta[tracelog.MetaHost] &&
		within(h.clocks.Booted, k.Booted, sameBoot)
}

// firstStarted is the host that started first, of those whose logs tell.
func firstStarted(hosts []*host) *host {
	first := hosts[0]
	for _, h := range hosts[1:] {
		if h.clocks.Known && (!first.clocks.Known || h.clocks.Ahead < first.clocks.Ahead) {
			first = h
		}
	}
	return first
}

func within(a, b, most int64) bool { return a-b <= most && b-a <= most }
