"""The style of every screen beyond the theme, in print and in narrow windows; and the script of the
browser's Back.
"""

from pathlib import Path
from typing import Literal

import streamlit as st

from spmd_lab.ui.markdown import plain

# evidence of a figure, strongest first
_EVIDENCE: dict[str, Literal["green", "blue", "violet", "gray"]] = {
    "Measured": "green",
    "Compiled": "blue",
    "Estimated": "violet",
    "Predicted": "violet",
    "Simulated": "gray",
    "Example": "gray",
}
IN_FULL = {"Compiled": "Compiled, time predicted", "Simulated": "Simulated CPUs"}

_STEPS = Path(__file__).with_name("steps.js").read_text("utf-8")

# The app's color-scheme follows the theme that the viewer chose, and light-dark() follows that.
# What opens above the app is outside of it in the page: there it follows the system's.
# Streamlit keeps a link and its words on one line, and clips them; the menu alone fits on one.
# Type: 12, 13, 15, 20, 26, 40 px; weights 400, 600, 700; spaces 4, 8, 16, 24, 40 px; radius 12.
_CSS = """<style>
:root {{ color-scheme: light dark; {rows} --quiet: light-dark(#4f5b6b, #a9b5c4); --line: light-dark(#d9dfe7, #323c49);
  --tint: light-dark(#f6f8fb, #171c23); --accent: light-dark({light}, {dark}); --page: light-dark(#ffffff, #12161c); --menu: 3.6rem; }}
[data-testid="stMultiSelectTagsContainer"] > :not(input), [data-testid="stMultiSelectTagsContainer"] > :not(input) * {{ color: light-dark(#ffffff, #0b1420) !important; }}
[data-testid="stMain"] {{ font-variant-numeric: tabular-nums; }}
.figure {{ font-size: 2.67rem; font-weight: 700; line-height: 1.1; overflow-wrap: anywhere; }}
.stMarkdownBadge {{ vertical-align: baseline !important; white-space: normal !important; overflow: visible !important; }}
[data-testid="stHorizontalBlock"]:has(> [data-testid="stElementContainer"] .stMarkdownBadge) {{ column-gap: 0.5rem; }}
div.figure {{ display: flex; flex-wrap: wrap; align-items: baseline; column-gap: 0.6rem; }}
.figure small {{ display: inline-block; line-height: 1.4; font-size: 1rem; font-weight: 400; color: var(--quiet); }}
.stMarkdownColoredBackground:has(> .stMarkdownColoredText) {{ background: none !important; padding: 0 !important; margin: 0 !important; font-weight: 600; }}  /* a row's name after its marker */
:is(h1, h2, h3):has(.stMarkdownColoredBackground) {{ font-weight: 500; }}
:is(h1, h2, h3, strong) .stMarkdownColoredBackground:has(> .stMarkdownColoredText) {{ font-weight: 700; }}
[class*="st-key-shrinks-"] {{ position: relative; }}
[class*="st-key-shrinks-"]::after {{ content: ""; position: absolute; inset: 0; pointer-events: none; background: light-dark(#0000, #171c2348); }}
img.picture {{ width: 100%; max-height: 17rem; }}
img.glimpse {{ height: 2.8rem; max-width: 7.5rem; object-fit: contain; object-position: left; display: block; }}
:is(.st-key-starts, [class*="st-key-gallery"]) img.glimpse {{
  width: 100%; height: 6.5rem; max-width: none; padding: 0.8rem; border-radius: 0.5rem;
  background: var(--tint); object-position: center;
}}
:is(.st-key-starts, [class*="st-key-gallery"]) [data-testid="stColumn"] > div > div > div {{
  position: relative; padding: 0.6rem; border-radius: 0.8rem;
}}
:is(.st-key-starts, [class*="st-key-gallery"]) [data-testid="stColumn"]:hover > div > div > div {{ border-color: var(--accent); }}
:is(.st-key-starts, [class*="st-key-gallery"]) [data-testid="stPageLink-NavLink"] {{ position: static; background: none; padding-left: 0.25rem; }}
:is(.st-key-starts, [class*="st-key-gallery"]) [data-testid="stPageLink-NavLink"]::after {{ content: ""; position: absolute; inset: 0; }}
:is(.st-key-starts, [class*="st-key-gallery"]) [data-testid="stCaptionContainer"] {{ margin: -0.9rem 0 -0.8rem; padding-left: 0.25rem; }}
@media (min-width: 641px) {{ [class*="st-key-gallery-path-"] :is(img.glimpse, .fit) {{ height: 10.6rem; }} }}
[class*="st-key-alike-"] {{ display: grid; grid-template-columns: 1fr 1fr; column-gap: 2.5rem; }}
[class*="st-key-alike-"] [data-testid="stPageLink-NavLink"] {{ width: 100%; background: none; padding: 0.45rem 0.25rem; border-top: 1px solid var(--line); border-radius: 0; }}
[class*="st-key-alike-"] [data-testid="stPageLink-NavLink"]:hover {{ background: var(--tint); }}
[class*="st-key-alike-"] [data-testid="stPageLink-NavLink"] p {{ color: var(--quiet); font-weight: 400; }}
[class*="st-key-alike-"] [data-testid="stPageLink-NavLink"] strong {{ font-weight: 600; color: var(--accent); margin-right: 0.6rem; }}
.st-key-product-picture [data-testid="stHtml"] {{ max-width: 40rem; }}
.st-key-starts img.glimpse {{ height: 5.8rem; }}
.st-key-starts [data-testid="stPageLink-NavLink"] p {{ font-size: 1.07rem; line-height: 1.35; }}
.st-key-starts [data-testid="stPageLink-NavLink"] > span:last-child {{ color: var(--accent) !important; }}
[data-testid="stMain"] [data-testid="stVerticalBlock"][class*="st-key-"] {{ border-radius: 0.8rem; }}
.st-key-tour {{ background: var(--tint); border-color: transparent; padding: 0.5rem 1rem; }}
[class*="st-key-sweep-choices"] [data-testid="stButtonGroup"] button {{ min-height: 2.5rem; }}  /* as high as the fields beside it */
@media (min-width: 641px) {{ .st-key-sweep-choices > :last-child {{ margin-left: auto; }} }}
.st-key-starts [data-testid="stColumn"] > div > div > div:has(.st-key-main-link-tour) {{ border-color: var(--accent); background: var(--tint); }}
.st-key-starts [data-testid="stColumn"]:has(.st-key-main-link-tour) img.glimpse {{ background: none; height: 5.4rem; }}
.st-key-starts .st-key-main-link-tour [data-testid="stPageLink-NavLink"] {{ padding: 0.15rem 0.7rem; margin-left: 0.25rem; }}
.st-key-starts .st-key-tour-dismiss button {{ min-height: 0; padding: 0 0.25rem; }}
.st-key-about-machine details {{ border: none; }}
.st-key-about-machine summary {{ padding: 0.25rem 0; }}
.st-key-machine {{ border-top: 1px solid var(--line); padding-top: 0.5rem; }}
[class*="st-key-recent"] {{ margin-top: 0.8rem; }}
[class*="st-key-recent"] > :first-child [data-testid="stPageLink-NavLink"] {{ background: none; padding: 0; }}
[class*="st-key-recent"] [data-testid="stColumn"] > div > div > div {{ position: relative; padding: 0.7rem 0.9rem; border-radius: 0.8rem; }}
[class*="st-key-recent"] [data-testid="stColumn"] [class*="st-key-row-"] {{ position: static; padding: 0; gap: 0.75rem; align-items: flex-start; }}
[class*="st-key-recent"] [data-testid="stColumn"] img.glimpse {{ max-width: 6rem; height: 3.4rem; }}
[class*="st-key-recent"] [data-testid="stColumn"] [data-testid="stCaptionContainer"] strong {{ font-size: 1.07rem; font-weight: 600; padding-right: 0.3rem; }}
:is([class*="st-key-row-"], [class*="st-key-gallery"]) [data-testid="stPageLink-NavLink"] p {{ line-height: 1.35; }}
[class*="st-key-recent"] [data-testid="stColumn"]:hover > div > div > div {{ border-color: var(--accent); }}
[class*="st-key-recent"] [data-testid="stColumn"] [class*="st-key-row-"]:hover {{ background: none; }}
:is([class*="st-key-recent"], .st-key-running) [class*="st-key-row-"] {{ position: relative; border-radius: 0.5rem; padding: 0.25rem; }}
:is([class*="st-key-row-"], [class*="st-key-named-"]) img.glimpse {{ max-width: 5.6rem; }}
[class*="st-key-named-"] [data-testid="stPageLink"] {{ padding-right: 1.5rem; }}
:is([class*="st-key-recent"], .st-key-running) [class*="st-key-row-"] [data-testid="stButton"] {{ position: relative; z-index: 1; }}
:is([class*="st-key-recent"], .st-key-running) [class*="st-key-row-"]:hover {{ background: var(--tint); }}
:is([class*="st-key-recent"], .st-key-running) [class*="st-key-row-"] [data-testid="stPageLink-NavLink"] {{ position: static; }}
:is([class*="st-key-recent"], .st-key-running) [class*="st-key-row-"] [data-testid="stPageLink-NavLink"]::after {{ content: ""; position: absolute; inset: 0; }}
.st-key-head-example {{ margin-top: 1.6rem; padding-top: 1.2rem; border-top: 1px solid var(--line); border-radius: 0 !important; }}
.st-key-head-example h2 {{ font-size: 1.6rem; font-weight: 700; padding: 0; }}
[class*="st-key-edited-"] {{ flex-wrap: nowrap; }}
[class*="st-key-tools-"] {{ flex-wrap: nowrap; padding-top: 0.25rem; }}
[class*="st-key-tools-"] button {{ min-height: 0; padding: 0.35rem; color: var(--quiet); }}
[class*="st-key-tools-"] button p {{ position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }}
[class*="st-key-edited-"] h2:first-child {{ padding-top: 0; }}
[class*="st-key-row-part-"] > :last-child {{ margin-left: auto; }}
[class*="st-key-row-"] [data-testid="stPageLink-NavLink"] {{ background: none; padding-left: 0; }}
[class*="st-key-row-"] [data-testid="stPageLink-NavLink"] p {{ font-weight: 600; }}
:is(.st-key-held, .st-key-held-searches) {{ background: var(--tint); padding: 0.4rem 0.6rem; }}
.st-key-days h2 {{ display: flex; column-gap: 0.5rem; font-size: 0.9rem; font-weight: 600; color: var(--quiet); padding: 1.2rem 1.75rem 0.4rem 0.5rem; margin: 0; }}
:is(.st-key-days, .st-key-findings) h2 small {{ font-size: 0.8rem; font-weight: 400; color: var(--quiet); min-width: 4rem; text-align: right; }}
.st-key-findings h2 small {{ font-size: 0.93rem; width: 28.9rem; text-align: left; }}
.st-key-days h2 small:first-of-type {{ text-align: left; }}
.st-key-days h2 small:nth-of-type(2) {{ margin-left: auto; width: 20rem; text-align: left; }}
.st-key-days h2 small:nth-of-type(3) {{ width: 11rem; }}
.st-key-days > :nth-child(2) h2 {{ padding-top: 0; }}
[class*="st-key-line-"] [data-testid="stButton"] {{ position: relative; z-index: 1; }}
[class*="st-key-line-"] [data-testid="stButton"] button {{ min-height: 0; color: var(--quiet); }}
[class*="st-key-line-"] [data-testid="stCaptionContainer"], [class*="st-key-line-"] [data-testid="stCaptionContainer"] p {{ margin: 0; color: inherit; }}
[class*="st-key-line-"] [data-testid="stHtml"] i {{ display: block; font-style: normal; font-weight: 400; font-size: 0.8rem; color: var(--quiet); }}
[class*="st-key-line-"] em {{ display: block; font-style: normal; font-weight: 600; color: light-dark(#1c2430, #e4e9f0); }}
[class*="st-key-line-"] em.green {{ color: light-dark(#0b5c2b, #8fe0ad); }}
[class*="st-key-line-"] em.red {{ color: light-dark(#b3293c, #ff8a97); }}
[class*="st-key-line-"] em.orange {{ color: light-dark(#9a4a00, #f2b37a); }}
[class*="st-key-line-"] button, [class*="st-key-line-"] button > div {{ justify-content: flex-start; padding: 0; }}
[class*="st-key-line-"] {{ column-gap: 0.5rem; position: relative; align-items: center; flex: none; min-height: 4.4rem; padding: 0.5rem 1.75rem 0.5rem 0.5rem; border-top: 1px solid var(--line); border-radius: 0 !important; }}
[class*="st-key-line-within-"] {{ padding-left: 2.25rem; }}
[class*="st-key-line-"]:hover {{ background: var(--tint); }}
[class*="st-key-line-"] :is([data-testid="stElementContainer"]:has(> [data-testid="stHtml"]), [data-testid="stHtml"]) {{ display: contents; }}
[class*="st-key-line-"] > :has([data-testid="stCheckbox"]) {{ z-index: 1; flex: none; padding-right: 0.75rem; }}
[class*="st-key-line-"] > :has([data-testid="stPageLink"]) {{ order: 2; flex: 1 1 0; min-width: 0; }}
[class*="st-key-line-"] img.glimpse {{ order: 1; flex: none; width: 7.5rem; height: 3rem; margin-right: 1rem; }}
[class*="st-key-line-"] [data-testid="stPageLink-NavLink"] {{ position: static; background: none; padding: 0; height: auto; line-height: 1.7; }}
[class*="st-key-line-"] :has([data-testid="stPageLink"]), [class*="st-key-line-"] [data-testid="stPageLink"] {{ position: static; }}
[class*="st-key-line-"] [data-testid="stPageLink-NavLink"]::after {{ content: "\\203a" / ""; position: absolute; inset: 0; display: flex; align-items: center; justify-content: flex-end; padding: 0 0.6rem 0.2rem; font-size: 1.33rem; color: var(--accent); }}
[class*="st-key-line-"] [data-testid="stPageLink-NavLink"] p {{ color: var(--quiet); font-weight: 400; }}
[class*="st-key-line-"] [data-testid="stPageLink-NavLink"] strong {{ display: block; font-weight: 600; color: var(--accent); }}
[class*="st-key-line-"]:hover [data-testid="stPageLink-NavLink"] strong {{ text-decoration: underline; text-underline-offset: 0.2em; }}
[class*="st-key-line-"] [data-testid="stHtml"] > span {{ order: 3; flex: none; width: 20rem; font-size: 0.87rem; color: var(--quiet); padding-right: 1rem; }}
[class*="st-key-line-"] [data-testid="stHtml"] > b {{ order: 4; flex: none; width: 11rem; text-align: right; font-weight: 600; }}
[class*="st-key-line-"] [data-testid="stHtml"] > small {{ order: 5; width: 4rem; text-align: right; color: var(--quiet); }}
:is(.st-key-next, .st-key-tour) [data-testid="stPageLink-NavLink"] {{ background: var(--page); border: 1px solid var(--accent); border-radius: 0.5rem; padding: 0.25rem 0.75rem; }}
.st-key-next [data-testid="stPageLink-NavLink"] :is(p, span) {{ color: var(--accent) !important; }}
.st-key-tour [data-testid="stPageLink-NavLink"] {{ background: var(--accent); }}
.st-key-tour [data-testid="stPageLink-NavLink"] :is(p, span) {{ color: light-dark(#ffffff, #0b1420) !important; }}
.st-key-tour [class*="st-key-tour-back"] [data-testid="stPageLink-NavLink"] {{ background: none; border-color: transparent; }}
.st-key-tour [class*="st-key-tour-back"] [data-testid="stPageLink-NavLink"] :is(p, span) {{ color: var(--accent) !important; }}
.variants {{ display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; }}
.variants figure {{ margin: 0; }}
.variants figcaption {{ font-size: 0.85rem; padding-top: 0.4rem; }}
[data-testid="stMain"] h1 {{ padding: 0.9rem 0 0.5rem; }}
@media (max-width: 1100px) {{ [data-testid="stMain"] h1 {{ font-size: 1.6rem; }} }}
[data-testid="stHeading"] > [data-testid="stMarkdownContainer"]:has(h1) {{ margin-bottom: 0 !important; }}
@media (min-width: 641px) {{ .st-key-head {{ flex-wrap: nowrap; }} }}
@media (max-width: 640px) {{ .st-key-head > :first-child {{ flex: 1 1 100%; }} }}
[class*="st-key-answer"] {{ background: var(--tint); border-radius: 0.8rem; padding: 1.6rem; border-color: transparent; }}
[class*="st-key-answer"] h3 {{ font-size: 1.33rem; font-weight: 600; line-height: 1.35; padding: 0 0 0.75rem; text-wrap: balance; }}
[data-testid="stMain"] [data-testid="stTabs"] [role="tab"] p {{ font-size: 1rem; font-weight: 600; }}
[data-testid="stMain"] [data-testid="stTable"] th {{ font-size: 0.8rem; font-weight: 400; color: var(--quiet); }}
[data-testid="stMain"] [data-testid="stTable"] table {{ border: none; }}
[data-testid="stMain"] [data-testid="stTable"] :is(th, td):first-child {{ padding-left: 0; }}
@media (min-width: 641px) {{ [data-testid="stTable"] :is(th, td).number, [data-testid="stTable"] :is(th, td).number * {{ text-align: right !important; max-width: none; }} }}
@media (min-width: 1101px) {{ [data-testid="stTable"] td.number p {{ white-space: nowrap; }} }}
/* below a field: inside of it the words cover what is typed */
[data-testid="InputInstructions"] {{ top: 100%; bottom: auto; z-index: 2; padding: 0 0.3rem; border-radius: 0.3rem; background: light-dark(#ffffff, #12161c); }}
[data-testid="stSidebar"] [data-testid="stExpander"] details {{ border: none; }}
[data-testid="stSidebar"] [data-testid="stExpander"] summary {{ padding: 0.25rem 0; min-height: 0; }}
[data-testid="stSidebar"] [data-testid="stExpanderDetails"] {{ padding: 0.25rem 0 0.5rem; }}
[data-testid="stPageLink-NavLink"]:focus-visible {{
  outline: 2px solid light-dark({light}, {dark}) !important; outline-offset: 1px;
}}
[data-testid="stDataFrame"]:focus-within {{ outline: 2px solid light-dark({light}, {dark}); }}
[data-testid="stPageLink-NavLink"] p {{ white-space: normal; overflow: visible; }}
[data-testid="stPageLink-NavLink"] > span {{ overflow: visible; white-space: normal; }}
[class*="st-key-main-link"] [data-testid="stPageLink-NavLink"] {{
  background: light-dark({light}, {dark}); padding: 0.45rem 0.75rem; border-radius: 0.5rem;
}}
[class*="st-key-main-link"] [data-testid="stPageLink-NavLink"] :is(p, span) {{
  color: light-dark(#ffffff, #0b1420) !important;
}}
[data-testid="stMain"]:has(.st-key-tour) :is([class*="st-key-main-link"] [data-testid="stPageLink-NavLink"], [data-testid^="stBaseButton-primary"]) {{
  background: var(--page); border: 1px solid var(--line);
}}
[data-testid="stMain"]:has(.st-key-tour) :is([class*="st-key-main-link"] [data-testid="stPageLink-NavLink"], [data-testid^="stBaseButton-primary"]:enabled) :is(p, span, svg) {{
  color: var(--accent) !important;
}}
[class*="st-key-side-link"] [data-testid="stPageLink-NavLink"] p {{ font-weight: 500; }}
[class*="st-key-side-link"] [data-testid="stPageLink-NavLink"] {{
  border: 1px solid var(--line); background: var(--page); padding: 0.45rem 0.75rem; border-radius: 0.5rem;
}}
.st-key-screens {{ flex-wrap: nowrap; }}
.st-key-menu > :first-child p {{ position: relative; top: 2px; white-space: nowrap; }}
[class*="st-key-screens-of-"] {{ display: none; }}
[class*="st-key-list-other"] [data-testid="stPageLink-NavLink"] {{ background: none !important; }}
[class*="st-key-list-other"] [data-testid="stPageLink-NavLink"] p {{ font-weight: 400 !important; }}
.st-key-menu [data-testid="stPageLink-NavLink"] {{ background: none !important; padding: 0.05rem 0.4rem; margin: 0 0.1rem; }}
.st-key-menu a:hover p {{ color: var(--accent) !important; }}
[class*="st-key-menu-here"] [data-testid="stPageLink-NavLink"] p {{ box-shadow: 0 0.15rem var(--accent); }}
.st-key-menu [data-testid="stPageLink-NavLink"] > span:first-child {{ display: none; }}
.st-key-menu [data-testid="stPageLink-NavLink"] p {{ white-space: nowrap; font-weight: 500 !important; }}
.st-key-menu [data-testid="stCaptionContainer"] {{ margin: 0; }}
.st-key-menu [data-testid="stCaptionContainer"] p {{ font-size: 0.72rem; line-height: 1.15; padding: 0 0 0.2rem 0.5rem; margin: 0; }}
.st-key-menu {{
  position: fixed; top: 0; left: 0; width: 100vw; z-index: 999991; flex-wrap: nowrap;
  padding: 0.35rem 1.25rem 0.5rem; background: var(--page); border-bottom: 1px solid var(--line);
}}
[data-testid="stAppViewContainer"] {{ top: var(--menu); height: auto; bottom: 0; }}
[data-testid="stMainBlockContainer"] {{ padding-top: 0; }}
:has(> [data-testid="stMain"]), [data-testid="stMain"] {{ height: 100%; }}
@media (min-width: 641px) {{
  [data-testid="stSidebarHeader"] {{ height: 2.2rem; margin: 0; padding-bottom: 0; }}
  [data-testid="stAppViewContainer"]:has([data-testid="stExpandSidebarButton"]) [data-testid="stMainBlockContainer"] {{ padding-top: 2.2rem; }}
}}
@media (min-width: 641px) and (max-width: 800px) {{ .st-key-menu > :first-child {{ display: none; }} }}
@media (min-width: 641px) and (max-width: 1100px) {{
  .st-key-screens {{ gap: 0.15rem; }}
  .st-key-menu [data-testid="stPageLink-NavLink"] p {{ font-size: 0.82rem; }}
}}
@media (max-width: 640px) {{
  :root {{ --menu: 3rem; }}
  .st-key-menu {{ gap: 0.5rem; align-items: center; padding: 0.2rem 1rem; height: var(--menu); }}
  .st-key-screens {{ display: none; }}
  [class*="st-key-screens-of-"] {{ display: block; margin: 0 auto 0 0.6rem; }}
  [data-testid="stMainBlockContainer"] {{ margin-top: -1rem; }}
  [data-testid="stApp"]:has([data-testid="stExpandSidebarButton"]) [data-testid="stAppViewContainer"] {{ bottom: var(--menu); }}
  [data-testid="stHeader"]:has([data-testid="stExpandSidebarButton"]) {{ position: fixed; top: auto; bottom: 0; height: var(--menu); min-height: 0; background: var(--page); border-top: 1px solid var(--line); }}
  [data-testid="stHeader"] :has([data-testid="stExpandSidebarButton"]) {{ flex: 1; width: 100%; }}
  [data-testid="stHeader"] [data-testid="stExpandSidebarButton"] {{ width: 100%; justify-content: center; }}
  [data-testid="stExpandSidebarButton"], [data-testid="stExpandSidebarButton"] span {{ color: var(--accent) !important; }}
  [data-testid="stExpandSidebarButton"]::after {{ font-size: 1rem; font-weight: 600; }}
  [class*="st-key-edited-"] {{ flex-wrap: wrap-reverse; justify-content: flex-end; row-gap: 0; }}
  [class*="st-key-edited-"] > :first-child {{ min-width: 100%; }}
  .st-key-sweep-choices {{ gap: 0.5rem 1rem; }}
  .st-key-tour > :not(:last-child) {{ min-width: 100%; }}
  [class*="st-key-said-"] :is(h2, h3) {{ font-size: 1.33rem; font-weight: 700; padding: 1.2rem 0 0; }}
[class*="st-key-part-"] h3 {{ font-size: 1rem; font-weight: 600; }}
.st-key-findings h2 {{ flex-wrap: wrap; }}
.st-key-findings h2 small {{ text-align: left; }}
:is([class*="st-key-mend-card"], [class*="st-key-use-"], [class*="st-key-remedy-"]) button :is(div, span, p) {{ white-space: normal; overflow: visible; text-align: left; }}
  .st-key-list-bar > :first-child {{ flex: 1 1 100%; }}
  [class*="st-key-line-"] {{ flex-wrap: wrap; }}
  [class*="st-key-line-"] > :has([data-testid="stPageLink"]) {{ flex: 1 1 calc(100% - 8rem); }}
  [class*="st-key-line-"] img.glimpse {{ width: 4rem; margin-right: 0.6rem; }}
  [class*="st-key-line-"] [data-testid="stHtml"] > span {{ flex: 1 1 100%; padding: 0.2rem 0.5rem 0 2.3rem; }}
  [class*="st-key-line-"] [data-testid="stHtml"] > b {{ width: auto; margin: 0 auto 0 2.3rem; text-align: left; }}
  .st-key-days h2 small:is(:nth-of-type(2), :nth-of-type(3)) {{ display: none; }}
  .st-key-days h2 small:last-of-type {{ margin-left: auto; }}
  [class*="st-key-row-"] > :nth-child(2) {{ flex: 1 1 0; min-width: 50%; }}
  [class*="st-key-named-"] {{ display: grid; grid-template-columns: auto 1fr; }}
  [class*="st-key-named-"]:not(:has(img)) {{ grid-template-columns: 1fr; }}
  [class*="st-key-alike-"] {{ grid-template-columns: 1fr; }}
  :is(.st-key-starts, [class*="st-key-gallery"]) [data-testid="stHorizontalBlock"] {{ gap: 0.6rem; }}
  :is(.st-key-starts, [class*="st-key-gallery"]) [data-testid="stColumn"] {{ min-width: calc(50% - 0.3rem); flex: 1 1 calc(50% - 0.3rem); }}
  .st-key-starts {{ display: grid; grid-template-columns: 1fr 1fr; gap: 0.6rem; align-items: stretch; }}
  .st-key-starts > [data-testid="stLayoutWrapper"], .st-key-starts > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"] {{ display: contents; }}
  .st-key-starts [data-testid="stColumn"] {{ width: 100% !important; min-width: 0; }}
  :is(.st-key-starts, [class*="st-key-gallery"]) img.glimpse {{ height: 5.5rem; padding: 0.6rem; }}
  [class*="st-key-gallery"] .fit {{ min-height: 5.5rem; padding: 0.3rem 0.6rem 0.6rem; }}
  [class*="st-key-gallery"] .fit small {{ font-size: 0.75rem; line-height: 1.3; }}
}}
[data-testid="stExpandSidebarButton"] {{ width: auto; }}
[data-testid="stExpandSidebarButton"]::after {{ content: "{fields}"; font-size: 0.87rem; padding-right: 0.5rem; }}
@media (min-width: 641px) {{
  [class*="st-key-row-"], .st-key-tour {{ flex-wrap: nowrap; }}
  [class*="st-key-row-"] > :nth-child(2) {{ flex: 1 1 0; min-width: 0; }}
}}
[data-testid="stSidebar"] [data-testid="stNumberInputClearButton"] {{ display: none; }}
.st-key-layout-numbers [data-testid="stCode"] pre {{ background: var(--page); padding: 0.75rem 0.9rem; }}
.st-key-layout-numbers [data-testid="stElementToolbarButton"], .st-key-layout-numbers [data-testid="stElementToolbar"],
:is(.st-key-layout-numbers, .st-key-share-link) [data-testid="stCode"] > div:has([data-testid="stElementToolbarButton"]) {{ opacity: 1 !important; visibility: visible !important; pointer-events: auto !important; }}
.st-key-share-link [data-testid="stCode"] pre {{ margin-right: 5rem; }}  /* beside its button */
.st-key-share-link [data-testid="stCode"] button {{ width: auto; gap: 0.3rem; }}
.st-key-share-link [data-testid="stCode"] button::after {{ content: "Copy"; font-size: 0.87rem; }}
@media (max-width: 640px), (hover: none) {{
  [data-testid="stCode"] > div:has(> div > [data-testid="stElementToolbarButton"]),
  [data-testid="stElementContainer"]:has([data-testid="stDataFrame"]) [data-testid="stElementToolbar"] {{
    opacity: 1 !important; visibility: visible !important; pointer-events: auto !important;
  }}
  [data-testid="stCode"] pre {{ padding-right: 3rem !important; }}  /* beside that button */
  [data-testid="stElementContainer"]:has([data-testid="stDataFrame"]) {{ margin-top: 2.2rem; }}
}}
@media (max-width: 640px) {{
  [data-testid="stMain"] [role="radiogroup"]:has(> [data-variant="pills"]) {{ flex-wrap: wrap; mask-image: none; }}
  [data-testid="stSidebar"] [data-testid="stHorizontalBlock"] {{ flex-wrap: nowrap; }}
  [data-testid="stSidebar"] [data-testid="stColumn"] {{ min-width: 0; }}
}}
[data-testid="stCaptionContainer"], [data-testid="stCaptionContainer"] :is(p, em, li) {{
  color: light-dark(#4f5b6b, #a9b5c4) !important; opacity: 1;
}}
[data-testid="stMarkdownContainer"] :not(pre) > code {{ color: light-dark(#0b5c2b, #8fe0ad) !important; padding-left: 0.15em; padding-right: 0.15em; margin: 0; }}
:is([data-testid^="stBaseButton-primary"], [data-testid="stPopoverButton"][kind="primary"]):enabled :is(p, span, svg) {{
  color: light-dark(#ffffff, #0b1420) !important;
}}
.token:is(.keyword, .boolean, .important) {{ color: light-dark(#8b1a6b, #f0a6d8) !important; }}
.token:is(.string, .char, .attr-value) {{ color: light-dark(#0b5c2b, #8fe0ad) !important; }}
.token:is(.function, .class-name, .builtin, .number, .parameter) {{ color: light-dark(#1f4f9f, #9cc4ff) !important; }}
.token:is(.comment, .punctuation, .operator) {{ color: light-dark(#4f5b6b, #a9b5c4) !important; }}
@media (max-width: 640px) {{
  [data-testid="stMain"] [data-testid="stTabs"] [role="tab"] p {{ font-size: 0.9rem; }}
  [data-testid="stMain"] [data-testid="stTabs"] [role="tablist"] {{ gap: 0.6rem; }}
  [data-testid="stTable"] tr:has(> td[data-label]) {{
    display: grid; grid-template-columns: 1fr 1fr; column-gap: 1.4rem; grid-auto-flow: dense;
    padding: 0.5rem 0; border-bottom: 1px solid light-dark(#d9dfe7, #323c49);
  }}
  [data-testid="stTable"] td[data-label] {{
    display: flex; justify-content: space-between; gap: 1rem; text-align: right;
    border: none !important; padding: 0.15rem 0; min-width: 0; overflow-wrap: anywhere;
  }}
  [data-testid="stTable"] td:is([data-label=""], .long) {{ grid-column: 1 / -1; }}
  [data-testid="stTable"] td[data-label].unknown {{ display: none; }}
  [data-testid="stTable"] td[data-label=""] {{ justify-content: flex-start; gap: 0; text-align: left; font-weight: 600; }}
  [data-testid="stTable"] td[data-label]::before {{ content: attr(data-label); opacity: 0.75; text-align: left; }}
  [data-testid="stTable"] table:has(td[data-label]) thead {{ display: none; }}
}}
.five {{
  display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, max-content)); gap: 0.9rem 2.4rem; align-items: start; justify-content: start;
}}
.five span, .five small {{ display: block; font-size: 0.82rem; color: var(--quiet); }}
.five b {{ display: flex; align-items: flex-end; min-height: 2.95rem; font-size: 1.33rem; font-weight: 600; line-height: 1.35; padding-bottom: 0.22rem; }}
.five > :first-child b {{ font-size: 2.67rem; font-weight: 700; line-height: 1.1; padding: 0; }}
@media (max-width: 640px) {{
  .five {{ grid-template-columns: auto auto; column-gap: 0.9rem; }}
  .five > :first-child {{ grid-column: 1 / -1; }}
  .five > div + div b {{ min-height: 0; padding: 0; font-size: 1.08rem; }}
}}
.split {{ padding-top: 1.2rem; }}
.split > small {{ display: block; padding-bottom: 0.4rem; font-size: 0.82rem; color: var(--quiet); }}
.split > ul:first-child {{ padding-top: 0; }}
.split > div {{ display: flex; gap: 2px; height: 1.6rem; border-radius: 0.3rem; overflow: hidden; }}
.split > div:has(> s) {{ position: relative; overflow: visible; }}
.split s {{ width: 3px; background: light-dark(#b3293c, #ff8a97); text-decoration: none; }}
.split > div > s {{ position: absolute; top: -0.3rem; bottom: -0.3rem; }}
.split li s {{ display: inline-block; height: 0.9rem; margin: 0 0.55rem -0.1rem 0; }}
.split ul {{ display: flex; flex-wrap: wrap; gap: 0.2rem 1.5rem; list-style: none; margin: 0; padding: 0.6rem 0 0; font-size: 0.87rem; }}
.split li {{ margin: 0; padding: 0; color: var(--quiet); }}
.split li i {{ display: inline-block; width: 0.7rem; height: 0.7rem; border-radius: 0.15rem; margin-right: 0.4rem; }}
.split li b {{ font-weight: 600; color: light-dark(#1c2430, #e4e9f0); }}
[data-testid="stPopoverBody"]:has(.st-key-wide) {{ width: min(46rem, 94vw); max-width: none; }}
[class*="st-key-how-sure"] {{ margin-top: -0.4rem; }}
@media (min-width: 1101px) {{  /* beside a long answer, not on a line of its own */
  [class*="st-key-answer"] [data-testid="stHorizontalBlock"]:has(> [class*="st-key-how-sure"]):has(> :first-child [data-testid="stHeading"]):not(:has(> :nth-child(5))) {{ flex-wrap: nowrap; }}
  [data-testid="stHorizontalBlock"]:has(> [class*="st-key-how-sure"]) > :first-child:has([data-testid="stHeading"]) {{ flex-shrink: 1; min-width: min-content; }}
  [data-testid="stHorizontalBlock"]:has(> [class*="st-key-how-sure"]) > :not(:first-child) {{ flex-shrink: 0; }}
}}
.why {{ --bar: 5rem; width: 100%; border-collapse: collapse; font-size: 0.93rem; line-height: 1.35; }}
.why :is(th, td) {{ text-align: left; vertical-align: top; font-weight: 400; padding: 0.3rem 1.2rem 0.2rem 0; }}
.why tr:first-child > * {{ font-size: 0.82rem; color: var(--quiet); padding-bottom: 0; }}
.why td {{ font-weight: 600; min-width: 4.6rem; }}
.why tr:first-child td, .why small {{ font-weight: 400; }}
.why small {{ font-size: 0.82rem; color: var(--quiet); }}
.why i {{ display: block; height: 0.25rem; min-width: 2px; margin-top: 0.15rem; border-radius: 0.15rem; }}
@media (min-width: 641px) {{ .why tr:first-child th, .why td:not(:last-child) {{ white-space: nowrap; }} }}
@media (max-width: 640px) {{ .why {{ --bar: 3.6rem; }} .why :is(th, td) {{ padding-right: 0.6rem; min-width: 0; }} }}
.stacked {{ table-layout: fixed; width: 100%; border-collapse: collapse; }}
.stacked :is(th, td) {{ text-align: right; vertical-align: top; font-weight: 400; padding: 0.45rem 0.5rem; border-bottom: 1px solid var(--line); }}
.stacked tr:not(:nth-child(2)) > :first-child {{ text-align: left; padding-left: 0; }}
.stacked tr:first-child > :last-child {{ text-align: center; border-bottom: none; padding-bottom: 0; color: var(--quiet); font-size: 0.87rem; }}
.stacked td:has(.asked) {{ background: light-dark(#e8eefb, #1d2a44); }}
.stacked :is(small, em, b) {{ display: block; }}
@media (max-width: 640px) {{
  .stacked :is(th, td) {{ padding: 0.4rem 0.2rem; }}
  .stacked tr:first-child > :first-child {{ width: 26%; }}
  .stacked th b {{ font-size: 0.82rem; }}
}}
.stacked small {{ font-size: 0.82rem; color: var(--quiet); }}
.stacked em {{ font-size: 0.82rem; font-style: normal; color: light-dark(#9a4a00, #f2b37a); }}
.beside {{ display: flex; flex-wrap: wrap; gap: 0.3rem 1.6rem; padding-top: 0.9rem; }}
.beside:empty {{ display: none; }}
.beside div {{ display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 0.4rem; font-size: 0.87rem; }}
.beside :is(span, small) {{ font-size: inherit; color: var(--quiet); }}
.beside b {{ font-size: inherit; font-weight: 600; }}
.ranked {{ container-type: inline-size; }}
.ranked :is(table, tbody) {{ display: block; width: 100%; border-spacing: 0; }}
.ranked :is(th, td) {{ text-align: left; font-weight: 400; padding: 0; border: none; }}
.ranked [colspan] {{ padding: 0.7rem 0 0.1rem; font-size: 0.87rem; font-weight: 600; }}
.ranked .row {{ display: grid; grid-template-columns: minmax(12rem, 17rem) 1fr 7rem 8rem; column-gap: 1.2rem; align-items: center; }}
.ranked .row > :nth-child(n + 3) {{ text-align: right; }}
.ranked small {{ display: block; font-size: 0.75rem; color: var(--quiet); }}
.ranked .row:not(.head) > * {{ padding: 0.25rem 0; font-size: 0.87rem; line-height: 1.35; }}
.ranked .first a, .ranked .row b {{ font-weight: 600; }}
.ranked a {{ color: var(--accent); text-decoration: none; }}
.ranked a:hover {{ text-decoration: underline; }}
.ranked .head {{ align-items: end; font-size: 0.82rem; color: var(--quiet); }}
.ranked ul {{ display: flex; flex-wrap: wrap; gap: 0.1rem 1rem; list-style: none; margin: 0; padding: 0; }}
.ranked li {{ margin: 0; padding: 0; font-size: 0.82rem; }}
.ranked li i {{ display: inline-block; width: 0.7rem; height: 0.7rem; border-radius: 0.15rem; margin-right: 0.4rem; }}
.ranked .best i {{ background: light-dark(#dbe6f7, #21314b); }}
.ranked .unsplit i {{ background: light-dark(#a9b4c2, #7d8998); }}
.ranked .row:not(.head) > .bar {{ position: relative; align-self: stretch; min-height: 2.6rem; padding: 0;
  background: linear-gradient(to right, transparent var(--low), light-dark(#e9effa, #1b2739) 0 var(--high), transparent 0); }}
.bar > div {{ position: absolute; top: calc(50% - 0.7rem); height: 0.85rem; display: flex; gap: 1px; border-radius: 0.15rem; overflow: hidden; background: light-dark(#a9b4c2, #7d8998); }}
.ranked .axis.row:not(.head) > .bar {{ min-height: 1.1rem; background: none; }}
.ranked .settled.row:not(.head) > .bar {{ background: none; }}
.axis span {{ position: absolute; transform: translateX(-50%); white-space: nowrap; font-size: 0.75rem; color: var(--quiet); }}
.axis span:first-child {{ transform: none; }}
.bar > u {{ position: absolute; top: calc(50% + 0.35rem); height: 0.4rem; border: solid light-dark(#1c2430, #e4e9f0); border-width: 0 1.5px; text-decoration: none; }}
.bar > u.open {{ border-right: none; }}
.bar > u.open::after {{ content: ""; position: absolute; right: 0.1rem; top: calc(50% - 0.2rem); width: 0.35rem; height: 0.35rem; border: solid light-dark(#1c2430, #e4e9f0); border-width: 1.5px 1.5px 0 0; transform: rotate(45deg); }}
.bar > u::before {{ content: ""; position: absolute; inset: calc(50% - 0.75px) 0 auto; border-top: 1.5px solid light-dark(#1c2430, #e4e9f0); }}
@container (max-width: 44rem) {{
  .ranked .row {{ grid-template-columns: 1fr 1fr; padding-top: 0.4rem; }}
  .ranked .row > :nth-child(-n + 2) {{ grid-column: 1 / -1; }}
  .ranked .row > :nth-child(3) {{ text-align: left; }}
}}
.gauge {{ display: block; height: 0.4rem; margin-top: 0.4rem; border-radius: 0.2rem; background: var(--line); overflow: hidden; }}
.gauge > i {{ float: left; height: 100%; background: light-dark(#2f855a, #5fc28f); }}
.gauge > i + i {{ background: light-dark(#8fcfa9, #2f7a55); }}
.gauge > i + i + i {{ background: light-dark(#a9b4c2, #5b6675); }}
.gauge.unsure > i {{ background: light-dark(#b7791f, #e0b050); }}
.gauge.over > i {{ background: light-dark(#b3293c, #ff8a97); }}
.gauge .spans > i {{ display: block; }}
.gauge:has(> .limit) {{ position: relative; overflow: visible; }}
.gauge:has(> .limit) > i:first-child {{ border-radius: 0.2rem; }}
.gauge > .limit, .gauge.over > .limit {{ position: absolute; top: -0.25rem; height: calc(100% + 0.5rem); width: 2px; background: light-dark(#1c2430, #e4e9f0); }}
.peaks {{ display: grid; grid-template-columns: max-content 1fr; gap: 0.3rem 0.8rem; align-items: center; font-size: 0.82rem; }}
.peaks small {{ color: var(--quiet); font-size: inherit; }}
.peaks .gauge {{ display: flex; height: 1.1rem; margin: 0; background: none; box-shadow: inset 0 0 0 1px var(--line); }}
.peaks .gauge > i {{ float: none; background: none; }}
.peaks .held {{ background: #3b76c4 !important; }}
.peaks .temporary {{ background: light-dark(#c4d6f0, #24406a) !important; }}
.peaks .gauge.over > .held {{ background: #b3293c !important; }}
.peaks ul {{ grid-column: 1 / -1; display: flex; flex-wrap: wrap; gap: 0.2rem 1.5rem; list-style: none; margin: 0; padding: 0.3rem 0 0; font-size: 0.87rem; }}
.peaks li {{ margin: 0; padding: 0; color: var(--quiet); }}
.peaks li i {{ display: inline-block; width: 0.7rem; height: 0.7rem; border-radius: 0.15rem; margin-right: 0.4rem; box-shadow: inset 0 0 0 1px var(--line); }}
.peaks li b {{ font-weight: 600; color: light-dark(#1c2430, #e4e9f0); }}
@media (max-width: 640px) {{ .peaks {{ grid-template-columns: 1fr; row-gap: 0.15rem; }} }}
.limit small {{ position: absolute; bottom: 100%; right: -0.75rem; white-space: nowrap; font-style: normal; }}
@media (max-width: 640px) {{ .limit small {{ display: none; }} }}
.fit {{ min-height: 6.5rem; padding: 0.4rem 1rem 0.6rem; border-radius: 0.5rem; background: var(--tint); display: flex; flex-direction: column; justify-content: center; }}
.fit small {{ color: var(--quiet); padding-top: 0.25rem; }}
.spans {{ display: flex !important; background: none !important; }}
.fit .gauge {{ flex: none; height: 0.8rem; margin-top: 0.15rem; }}
@media print {{
  [data-testid="stSidebar"], [data-testid="stHeader"], [data-testid="stExpandSidebarButton"],
  .st-key-menu, [data-testid="stButton"], [data-testid="stPopover"],
  [data-testid="stDownloadButton"], [data-testid="stElementToolbar"],
  [class*="st-key-to-press"] {{ display: none !important; }}
  [data-testid="stApp"], [data-testid="stAppViewContainer"], [data-testid="stMain"],
  [data-testid="stMainBlockContainer"] {{
    position: static !important; overflow: visible !important; height: auto !important;
    padding-top: 0 !important;
  }}
}}
@media (min-width: 641px) {{ [class*="st-key-finding-"] {{ flex-wrap: nowrap; }} [class*="st-key-finding-"] > :first-child {{ min-width: 0; }} }}
[class*="st-key-said-"] :is(h2, h3) {{ font-size: 1.33rem; font-weight: 700; padding: 1.2rem 0 0; }}
[class*="st-key-part-"] h3 {{ font-size: 1rem; font-weight: 600; }}
.st-key-findings h2 {{ display: flex; justify-content: space-between; font-size: 1rem; font-weight: 600; padding: 0 0 0.5rem; }}
.st-key-findings [class*="st-key-finding-"] {{ border-top: 1px solid var(--line); border-radius: 0 !important; padding: 0.5rem 0; }}
.st-key-stale, :has(> .st-key-refused) ~ *, .st-key-refused ~ *, :has(> .st-key-above .st-key-refused) ~ * {{
  filter: grayscale(1); position: relative; padding-left: 0.75rem;
}}
:is(.st-key-stale, :has(> .st-key-refused) ~ *, .st-key-refused ~ *, :has(> .st-key-above .st-key-refused) ~ *) :is(h1, h2, h3, h4, p, td, th) {{
  color: var(--quiet) !important;
}}
.st-key-stale::before, :has(> .st-key-refused) ~ *::before, .st-key-refused ~ *::before, :has(> .st-key-above .st-key-refused) ~ *::before {{
  content: ""; position: absolute; inset: 0 auto 0 0; width: 0.3rem;
  background: repeating-linear-gradient(135deg, var(--quiet) 0 2px, transparent 2px 5px);
}}
.st-key-rows td:first-child, .st-key-stale td:first-child {{ min-width: 8rem; }}
.st-key-collectives td:first-child, .st-key-collectives td:last-child {{
  min-width: 6.5rem; overflow-wrap: anywhere;
}}
/* a reason that is long opens under the pointer */
.st-key-collectives tr:not(:hover) td:last-child p {{
  display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 6; overflow: hidden;
}}
@media (min-width: 641px) and (max-width: 1100px) {{
  :is(.st-key-rows, .st-key-collectives) :is(td, th) {{ padding-left: 0.3rem; padding-right: 0.3rem; }}
  :is(.st-key-rows, .st-key-collectives) :is(td, th, p) {{ font-size: 0.82rem; }}
  .st-key-rows td:first-child {{ min-width: 4.5rem; }}
}}
@media (min-width: 641px) and (max-width: 1100px) {{
  [data-testid="stMainBlockContainer"] {{ padding-left: 2rem; padding-right: 2rem; }}
}}
@media (max-width: 1100px) {{
  [data-testid="stMain"] [data-testid="stHorizontalBlock"]:has(> [data-testid="stColumn"] table) {{
    flex-wrap: wrap;
  }}
  [data-testid="stMain"] [data-testid="stColumn"]:has(table) {{ min-width: 100%; }}
  .st-key-picture-and-numbers > [data-testid="stHorizontalBlock"],
  .st-key-picture-and-numbers > div > [data-testid="stHorizontalBlock"] {{ flex-wrap: wrap; }}
  .st-key-picture-and-numbers [data-testid="stColumn"] {{ min-width: 100%; }}
  .st-key-picture-and-numbers > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"] > :first-child,
  .st-key-picture-and-numbers [data-testid="stColumn"]:has(.st-key-layout-numbers) > [data-testid="stVerticalBlock"] {{ display: contents; }}
  .st-key-picture-and-numbers [data-testid="stLayoutWrapper"]:has(> .st-key-layout-asked) {{ order: 1; }}
}}
{marks}
</style>"""


def evidence(kind: str, words: str = "") -> None:
    """Draws a badge in the color of a kind of evidence: its name, or `words`."""
    st.badge(plain(words or IN_FULL.get(kind, kind)), color=_EVIDENCE[kind])


def evidence_badge(kind: str) -> str:
    """Returns that badge as Markdown."""
    return f":{_EVIDENCE[kind]}-badge[{plain(IN_FULL.get(kind, kind))}]"


def to_top(act: int) -> None:
    """Scrolls a screen to its top once the number of what the viewer did there is another one: its
    answer is there. It must be drawn at one place of a screen, always.
    """
    script = (
        f"if ((window.spmdAct ?? {act}) !== {act}) "
        "document.querySelector('[data-testid=\"stMain\"]').scrollTo(0, 0);"
        f"window.spmdAct = {act};"
    )
    st.html(f"<script>{script}</script>", unsafe_allow_javascript=True)


def draw(fields: str) -> None:
    """Once on every screen; `fields`: what its fields are, on the button that opens them."""
    light, dark = (  # none without the configuration that comes with the app
        st.get_option(f"theme.{each}.chartCategoricalColors") or () for each in ("light", "dark")
    )
    rows = zip(light, dark, strict=True)
    st.html(f"<script>{_STEPS}</script>", unsafe_allow_javascript=True)
    st.html(
        _CSS.format(
            light=st.get_option("theme.light.primaryColor"),
            dark=st.get_option("theme.dark.primaryColor"),
            fields=fields,
            rows=" ".join(f"--row-{at}: light-dark({a}, {b});" for at, (a, b) in enumerate(rows)),
            marks=" ".join(  # of the markers of rows in Markdown
                f'[style*="rgb(0, 0, {at})"] {{ color: var(--row-{at}) !important; }}'
                for at in range(len(light))
            ),
        )
    )
