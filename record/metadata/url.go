package metadata

import (
	"regexp"
	"strings"
)

// userinfo is what stands between the scheme and the host of a URL, up to the last @ before the path.
var userinfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s\x00]*@`)

// WithoutCredentials returns a text, or arguments with a zero byte between them, whose URLs have lost
// user name and password.
func WithoutCredentials(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	return userinfo.ReplaceAllString(text, "$1")
}

// WithoutQuery returns a URL without what follows its path, which may be a token.
func WithoutQuery(url string) string {
	if i := strings.IndexAny(url, "?#"); i >= 0 {
		return url[:i]
	}
	return url
}
