# %% [markdown]
# # From raw texts to a decision
#
# A shop gets messages. Several people have read some of them and called each praise, a question or
# a complaint; they do not always agree. Which new messages can be answered by a machine, and which
# need a person?
#
# The data are invented, so that this runs anywhere. With `CREDALSET_DATA` set to a folder that
# holds ChaosNLI, it runs on 1514 real pairs of sentences with a hundred votes each instead. Needs
# the extra `cli`.

# %% [markdown]
# ## 1. The raw file
#
# One JSON object per line: a name, a text, and how often each label was chosen. For other files see
# `cs.Annotations.read`, which reads the exports of many annotation tools.

# %%
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import credalset as cs

chaosnli = Path(os.environ.get("CREDALSET_DATA", "")) / "chaosNLI_v1.0" / "chaosNLI_snli.jsonl"
if chaosnli.is_file():
    rows = [json.loads(line) for line in chaosnli.read_text(encoding="utf-8").splitlines()]
    names = {"e": "entailment", "n": "neutral", "c": "contradiction"}
    records = {
        row["uid"]: {names[key]: n for key, n in row["label_counter"].items()} for row in rows
    }
    texts = [f"{row['example']['premise']} {row['example']['hypothesis']}" for row in rows]
else:
    file = Path("messages.jsonl")
    invented = cs.datasets.make_messages(1500, n_votes=30, random_state=0)
    with file.open("w", encoding="utf-8") as stream:
        for name, text, counts in zip(
            invented.items, invented.texts, invented.counts.tolist(), strict=True
        ):
            row = {
                "id": name,
                "text": text,
                "votes": dict(zip(invented.classes, counts, strict=True)),
            }
            stream.write(json.dumps(row) + "\n")
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    records = {row["id"]: row["votes"] for row in rows}
    texts = [row["text"] for row in rows]

votes = cs.Annotations.from_records(records)
print(votes)
print(texts[0], records[votes.items[0]])

# %% [markdown]
# ## 2. Three parts
#
# One part to train, one to calibrate, one to check. Shuffle first: the order of the file may carry
# information.

# %%
order = np.random.default_rng(0).permutation(len(votes))
train, calibrate, new = np.array_split(order, 3)
texts = pd.Series(texts, index=list(votes.items))

# %% [markdown]
# ## 3. A model that predicts disagreement
#
# Any classifier that takes sample weights can learn from shares of votes. TF-IDF weights are a
# simple start; a sentence encoder in place of `TfidfVectorizer` is the next step.

# %%
learner = make_pipeline(
    TfidfVectorizer(), cs.SoftLabelClassifier(LogisticRegression(C=100, max_iter=1000))
)
clf = cs.ConformalCredalClassifier(learner, "kl")
clf.fit(texts.iloc[train], votes[train]).conformalize(texts.iloc[calibrate], votes[calibrate])

# %% [markdown]
# ## 4. Are the sets valid, and has the model learned anything?
#
# Coverage should lie in its band. The column *constant* is the width if the same distribution were
# predicted for every text: a model that is no narrower has learned nothing from the words (bags of
# words on ChaosNLI hardly do).

# %%
print(clf.evaluate(texts.iloc[new], votes[new], alpha=[0.05, 0.1, 0.2]))

# %% [markdown]
# ## 5. Sets for new texts

# %%
sets = clf.predict_set(texts.iloc[new], alpha=0.1)
lower, upper = sets.envelope()
for row in range(3):
    shares = ", ".join(
        f"{name} {low:.0%} to {high:.0%}"
        for name, low, high in zip(votes.classes, lower[row], upper[row], strict=True)
    )
    print(f"{texts.iloc[new].iloc[row][:70]}\n    {shares}")

# %% [markdown]
# ## 6. A decision
#
# Every label has its own answer, worth 1 if it is the right one for the person who reads it.
# Handing a message to a colleague is worth 0.6 whatever it says. An action is certain if it is the
# best one for *every* distribution in the set; where several are left, a colleague decides, too.

# %%
n_classes = len(votes.classes)
actions = [f"answer as {name}" for name in votes.classes] + ["ask a colleague"]
utility = np.vstack([np.eye(n_classes), np.full(n_classes, 0.6)])
possible = sets.decide("e-admissible", utility)
certain = possible.sum(axis=1) == 1
choice = np.where(certain, possible.argmax(axis=1), n_classes)
for action, number in zip(actions, np.bincount(choice, minlength=n_classes + 1), strict=True):
    print(f"{number:4d}  {action}")

# %% [markdown]
# ## 7. Was it a good decision?
#
# The votes on these texts were not used so far. How often would the annotators have preferred
# another action, if the machine answers where the sets are certain, and if it trusts the prediction
# wherever that is worth more than 0.6?

# %%
worth = votes[new].distributions @ utility.T
trusting = (clf.predict_proba(texts.iloc[new]) @ utility.T).argmax(axis=1)
for way, chosen in (("by the sets", choice), ("by the prediction", trusting)):
    by_machine = chosen < n_classes
    wrong = by_machine & (worth.argmax(axis=1) != chosen)
    print(
        f"{way}: {by_machine.sum()} answered by machine, {wrong.sum()} of them although "
        "something else was better"
    )

# %% [markdown]
# ## 8. Report

# %%
report = cs.report(
    clf, texts.iloc[new], votes[new], "messages.html", texts=texts.iloc[new].tolist()
)
print(report.verdict.sentence)
print(report.queue)
