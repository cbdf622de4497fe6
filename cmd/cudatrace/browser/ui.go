package browser

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// DefaultUI is the address of Perfetto's own UI.
const DefaultUI = "https://ui.perfetto.dev"

// A UI is Perfetto's UI at an address: the public one, or a copy; or a copy in a folder, which the server serves.
type UI struct {
	Address string // of its page, without a fragment
	Origin  string // as a browser writes it
	Folder  string // with its index.html; "" for a UI at an address
}

// FindUI reads the address of a UI, or the name of a folder that has one.
func FindUI(text string) (UI, error) {
	if info, err := os.Stat(text); err != nil || !info.IsDir() {
		return ParseUI(text)
	}
	if _, err := os.Stat(filepath.Join(text, uiPage)); err != nil {
		return UI{}, errors.New("the folder has no " + uiPage)
	}
	return UI{Folder: text}, nil
}

// uiPage is the page of a UI in its folder.
const uiPage = "index.html"

// hostAndPort is a name or an address in lower case, and perhaps a port.
var hostAndPort = regexp.MustCompile(`^([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?$`)

// ParseUI reads the address of a UI.
func ParseUI(text string) (UI, error) {
	u, err := url.Parse(text)
	if err != nil {
		return UI{}, errors.New("it is not a URL")
	}
	host := strings.ToLower(u.Host)
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return UI{}, errors.New("it must begin with https:// or http://")
	case !hostAndPort.MatchString(host):
		return UI{}, errors.New("its host is not a name in ASCII or an address")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return UI{}, errors.New("it must be a plain address: no user, no ?, no #")
	}
	if port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]; strings.HasSuffix(host, port) {
		host = strings.TrimSuffix(host, port) // a browser's origin has no port that the scheme implies
	}
	origin := u.Scheme + "://" + host
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	return UI{Address: origin + path, Origin: origin}, nil
}

// byName makes a regular expression one of names of tracks. A UI from v55 on asks a person where it is left out.
const byName = "name"

// folding makes the first screen the story: what each rank did, the streams of the first GPU and how busy it was, and
// the threads of the first rank, or of the processes where there are no ranks. The UI begins with a row for each
// processor, and folds everything else.
var folding = []command{
	{"CollapseTracksByRegex", []string{"^CPU Scheduling$", byName}},
	{"ExpandTracksByRegex", []string{"^(All ranks|GPU|GPU 0|GPU 0 · .*|Hardware Queues|Critical path|rank 0: .*|" +
		"(?!rank |GPU |Process counters).* [0-9]+)$", byName}},
}

// A command is a command of the UI, without the name of the plugin that has it.
type command struct {
	name string
	args []string
}

// MarshalJSON writes a command as the UI takes it at its start. A UI that does not know a command leaves it out.
func (c command) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"id": "dev.perfetto." + c.name, "args": c.args})
}

// commands are what the UI does once it has the trace: it folds what is no part of the story, pins the tracks that tell
// it, in their order, and notes where to look.
func (v *View) commands() []command {
	list := slices.Clone(folding)
	for _, pin := range v.Pins {
		list = append(list, command{"PinTracksByRegex", []string{pin, byName}})
	}
	for _, n := range v.Notes {
		list = append(list, command{"AddNoteAtTimestamp", []string{strconv.FormatUint(n.At, 10), n.Text}})
	}
	return list
}

// address is the address at which the UI shows a view; trace is the address of a trace that the UI is
// to fetch itself, "" if it gets the trace in another way.
func (u UI) address(view View, trace string) string {
	var arguments []string
	if trace != "" {
		arguments = append(arguments, "url="+url.QueryEscape(trace))
	}
	if view.To > view.From {
		arguments = append(arguments, fmt.Sprintf("visStart=%d&visEnd=%d", view.From, view.To))
	}
	commands, err := json.Marshal(view.commands())
	if err != nil {
		panic(err) // texts have a form in JSON
	}
	return u.Address + "#!/?" + strings.Join(append(arguments, "startupCommands="+escaped(string(commands))), "&")
}

// escaped is a text as JavaScript's encodeURIComponent writes it, which the UI undoes: it takes a + for itself.
func escaped(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
