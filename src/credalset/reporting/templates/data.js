"use strict";
// The items of the page, as columns; numbers are whole steps, see page.py. All text goes in by textContent.
document.documentElement.classList.add("js");
const data = JSON.parse(document.getElementById("data").textContent);
const count = data.name.length;
const classes = data.classes;
const titles = data.queue.map((step) => step[0].toUpperCase() + step.slice(1));
const yes = ["no", "yes", "not known"];
const byId = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const at = (column, item, k) => data[column][item * classes.length + k];
const share = (column, item, k) => at(column, item, k) / data.coarse;
const isEmpty = (item) => data.width[item] < 0;
const fine = (column, item) => (data[column][item] < 0 ? NaN : data[column][item] / data.fine);
const words = (value, digits = 3) => (Number.isNaN(value) ? "–" : value.toFixed(digits));

const hasVotes = (item) => data.votes !== null && at("votes", item, 0) >= 0;

function voteTotal(item) {
  if (data.votes === null || !data.counted) return NaN;
  if (!hasVotes(item)) return 0;
  let total = 0;
  for (let k = 0; k < classes.length; k++) total += at("votes", item, k);
  return total;
}

function voteShare(item, k) {
  if (!hasVotes(item)) return NaN;
  return data.counted ? at("votes", item, k) / voteTotal(item) : share("votes", item, k);
}

function possible(item, most = Infinity) {
  // the likeliest first
  const found = classes.map((_, k) => k).filter((k) => data.possible[item][k] === "1");
  found.sort((a, b) => at("center", item, b) - at("center", item, a) || a - b);
  const names =
    found
      .slice(0, most)
      .map((k) => classes[k])
      .join(", ") || "none";
  return found.length > most ? `${names} and ${found.length - most} more` : names;
}

const reason = (item) => data.reason[item].map((code) => data.reasons[code]).join(" ");
const howMany = (item) => data.possible[item].replaceAll("0", "").length;
