// Memory over time: a click on a moment writes below the chart who held memory then.
'use strict';
(() => {
  const svg = document.querySelector('#held svg.chart');
  if (!svg) return;
  const said = document.createElement('p');
  said.className = 'note';
  said.setAttribute('aria-live', 'polite');
  said.textContent = 'A click on the chart says who held memory then.';
  svg.after(said);
  let at;
  svg.addEventListener('click', (e) => {
    const moment = e.target.closest('rect.moment');
    if (!moment) return;
    at?.classList.remove('at');
    at = moment;
    at.classList.add('at');
    const [head, ...lines] = at.textContent.trim().split('; ');
    const list = document.createElement('ul');
    for (const line of lines) list.append(Object.assign(document.createElement('li'), {textContent: line}));
    said.replaceChildren(head, list);
  });
})();
