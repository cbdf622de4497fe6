'use strict';
// Fetches the trace, opens Perfetto's UI at a click and hands the trace over to it. The UI is asked
// 'PING' until it answers 'PONG', because it drops messages that come before it listens.

const button = document.getElementById('open');
const say = (text) => { document.getElementById('state').textContent = text; };
const megabytes = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;

// reaches resolves to whether this browser reaches the UI: without a network, its tab would show the browser's own error
// page, of which this page learns nothing. A redirection to another origin is blocked here, and is an answer.
function reaches(about) {
  return new Promise((done) => {
    document.addEventListener('securitypolicyviolation', () => done(true));
    const later = () => setTimeout(done, 100, false); // behind the event
    fetch(about.origin, {mode: 'no-cors', credentials: 'omit', cache: 'no-store', signal: AbortSignal.timeout(about.answer)})
      .then(() => done(true), later);
  });
}

function warn(text) {
  const warning = document.getElementById('offline');
  warning.textContent = text;
  warning.hidden = text === '';
}

async function load(about) {
  const response = await fetch('trace');
  if (!response.ok) throw new Error(`the server answers ${response.status}`);
  const bytes = new Uint8Array(about.size);
  const reader = response.body.getReader();
  let at = 0;
  for (;;) {
    const {done, value} = await reader.read();
    if (done) break;
    bytes.set(value, at);
    at += value.length;
    say(`Loading: ${megabytes(at)} of ${megabytes(about.size)}`);
  }
  if (at !== about.size) throw new Error(`${at} of ${about.size} bytes arrived`);
  return bytes.buffer;
}

function handOver(about, buffer) {
  const ui = window.open(about.ui);
  if (!ui) {
    say('The browser blocked the new tab: allow pop-ups for this page and click again.');
    return;
  }
  say('Waiting for Perfetto …');
  button.disabled = true; // a second click would open a second tab
  const ping = setInterval(() => {
    if (ui.closed) {
      stop('The tab was closed. Click to open it again.');
      button.disabled = false;
    }
    else ui.postMessage('PING', about.origin);
  }, 100);
  const silent = setTimeout(() => {
    warn(`${about.origin} has not answered for ${about.answer / 1000} s. ${about.offline}`);
  }, about.answer);
  const stop = (text) => {
    clearInterval(ping);
    clearTimeout(silent);
    window.removeEventListener('message', pong);
    say(text);
  };
  const pong = (event) => {
    if (event.source !== ui || event.origin !== about.origin || event.data !== 'PONG') return;
    stop('Perfetto has the trace. You can close this tab.');
    warn('');
    ui.postMessage({perfetto: {buffer, title: about.title, fileName: about.title}}, about.origin, [buffer]);
  };
  window.addEventListener('message', pong);
}

async function main() {
  const about = await (await fetch('about.json')).json();
  document.getElementById('title').textContent = document.title = about.title;
  if (!await reaches(about)) {
    warn(`This browser does not reach ${about.origin}. ${about.offline}`);
    await fetch('unreached');
  }
  const buffer = await load(about);
  say(`${megabytes(about.size)}, in this tab. It goes nowhere but to ${about.origin} in this browser.`);
  button.addEventListener('click', () => handOver(about, buffer));
  button.disabled = false;
}

main().catch((error) => {
  say(`The trace did not arrive whole: ${error.message}. Reload this page; if that does not help, run cudatrace open again.`);
});
