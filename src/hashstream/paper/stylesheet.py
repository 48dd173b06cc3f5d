"""How the report looks: by day and by night, on a narrow screen and on paper."""

__all__ = ["STYLE"]

STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --paper: #ffffff; --soft: #59636e; --line: #d1d9e0;
  --shade: #f6f8fa; --link: #0b5fa5; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --paper: #15181c; --soft: #9aa4ae; --line: #3a4149; --shade: #1e2328; --link: #6cb6ff; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; }
h2 { font-size: 1.3rem; margin: 2.6rem 0 .6rem; }
h3 { font-size: .95rem; margin: 1rem 0 .25rem; color: var(--soft); }
nav h2 { margin-top: 1rem; }
nav ol { columns: 2; column-gap: 3rem; padding-left: 1.4rem; }
a { color: var(--link); }
p { margin: .2rem 0 .6rem; }
.introduction { max-width: 90ch; }
.story { background: var(--shade); border-radius: 6px; padding: .1rem 1.2rem .6rem; margin: 1rem 0; }
.story h2 { margin-top: .8rem; }
.story ul { padding-left: 1.2rem; margin: 0; }
.story li { margin: .2rem 0; }
section { border-top: 1px solid var(--line); }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 0 2rem; }
figure { margin: 1.2rem 0; }
figure svg { background: #ffffff; border-radius: 6px; display: block; height: auto; }
figcaption { color: var(--soft); font-size: .88rem; margin-top: .3rem; }
.wide { overflow-x: auto; margin: 1.2rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: 0 0 .4rem; min-width: 26rem; }
th, td { padding: .3rem .8rem .3rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
thead th { color: var(--soft); font-weight: 600; white-space: nowrap; }
tbody th { font-weight: 500; white-space: nowrap; }
small { color: var(--soft); white-space: nowrap; }
strong { font-weight: 700; }
.notes li { margin: .35rem 0; max-width: 80ch; }
code { background: var(--shade); padding: .1rem .3rem; border-radius: 3px; font-size: .9em;
  overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.2rem; }
dt { color: var(--soft); }
dd { margin: 0; }
@media (max-width: 720px) {
  .pair, dl { grid-template-columns: 1fr; }
  nav ol { columns: 1; }
  dd { margin-bottom: .5rem; }
}
@media print {
  :root { --ink: #000; --paper: #fff; --soft: #444; --line: #bbb; --shade: #f4f4f4; --link: #000; }
  body { font-size: 10pt; }
  main { max-width: none; padding: 0; }
  section { border: 0; }
  section + section { break-before: page; }
  figure, tr { break-inside: avoid; }
  .wide { overflow: visible; }
  table { font-size: 8pt; }
}
"""
