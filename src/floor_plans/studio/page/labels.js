// All that the page says, in every language it speaks. {name} is replaced by a fact.

const EN = {
  nav: "Document", undo: "Undo", "undo-title": "Undo (Ctrl+Z)", redo: "Redo", "redo-title": "Redo (Ctrl+Shift+Z)",
  new: "New", "open-file": "Open", "open-title": "Open a saved file", save: "Save", "save-title": "Save all, plans too, as a file",
  share: "Copy link", export: "Export", language: "Language", "export-diagram": "Diagram, {format}", "export-plan": "Plan, {format}",
  side: "What is asked", "tab-plot": "Plot", "tab-brief": "Brief", "tab-drawing": "Drawing", work: "The diagram",

  preset: "Take a plot …", "plot-file": "Read a DXF or GeoJSON file …", trace: "Trace a picture …",
  "trace-width": "The picture is as wide as", "end-trace": "Take it away", "trace-none": "{name} is no picture that this browser shows.",
  outline: "Outline", "any-outline": "any", square: "square",
  sides: "Sides", north: "North, clockwise from up", unknown: "unknown", snap: "Grid", "close-plot": "Close the outline",
  "no-plot": "No plot", entrance: "Entrance", "entrance-on-side": "Entrance on side {number}",
  "entrance-at": "from the corner", "entrance-at-label": "Metres from the corner to the entrance",
  "side-length": "Length of side {number}, metres", "split-side": "Split side {number}", corner: "corner {number}",
  "corner-at": "Corner {number} at {x}, {y} m", "plot-none": "No plot: plans have a free outline. Click corners on the grid, or take a plot.",
  "plot-open": "Click more corners; the first one again closes the outline.", "plot-crosses": "Sides of the plot cross; move a corner.",
  "plot-not-closed": "the outline of the plot is not closed; click its first corner, or take No plot",
  "plot-area": "{area} m². Drag corners, type lengths, click a side for the entrance.", "plot-read": "A plot of {area} m² was read.",
  "plot-help": "Plans fill the plot, with the front door at the entrance and living rooms to the south if they can.",
  "plot-board": "The plot. Arrow keys move a corner, Delete takes it out.",
  "geojson-unread": "The file is no GeoJSON.", "geojson-none": "The file has no polygon.", "too-many-corners": "The polygon has more than 64 corners.",

  "number-of-rooms": "Number of rooms", "at-least": "At least", "at-most": "At most", to: "to", rooms: "Rooms", relations: "Relations",
  "ask-for": "Ask for", "a-room": "a room …", "add-rule": "Add a rule", "more-keys": "More", "a-key": "a key of a brief …",
  "more-unread": "The further keys of the brief are no JSON object, such as {\"light\": [\"Kitchen\"]}", connected: "every room can be reached",
  buildable: "it can be built", keep: "diagrams keep what the drawing gives", answer: "Diagrams only",
  "answer-title": "Diagrams that meet the brief, without plans", "how-exactly": "exactly", "how-at least": "at least", "how-at most": "at most",
  "quantity-some": "some", "quantity-every": "every", "quantity-no": "no", quantity: "Quantity", "first-room": "First room",
  relation: "Relation", "second-room": "Second room", "the-rule": "the rule", "any-bedroom": "Bedroom (any)",
  "how-many": "How many of {name}", "number-of": "Number of {name}", "not-met": "No plan meets this:",

  room: "Room", "any-room": "Any room", "add-a-room": "Add a room …", "add-room": "Add a room", "add-room-title": "Add a room (A)",
  "add-relation": "Add a relation", relate: "Relate", "relate-title": "Relate the chosen room to the next one (R)",
  given: "given", open: "open", "given-button": "Given", "open-button": "Open", "given-title": "Given or open (G)",
  remove: "Remove", "remove-title": "Remove (Delete)", "remove-this": "Remove {what}", realise: "Realise",
  "realise-title": "A plan of this diagram (P)", complete: "Complete", "complete-title": "Draw all that is open (C)",
  "kept-title": "kept by completions", "drawn-title": "drawn anew by completions", "first-room-of": "First room of {what}",
  "relation-of": "Relation of {a} and {b}", "second-room-of": "Second room of {what}",
  board: "The diagram. Arrow keys choose a room, with Shift they move it; R relates, G locks, Delete removes.",
  start: "Say what you want: a plot, a brief, or rooms drawn here. Then make plans.", example: "Start with an example",

  cards: "Completions", "drawing-now": "drawing …", use: "Use", "use-completion": "Use completion {number}",
  "realise-completion": "Realise completion {number}", size: "{rooms} rooms, {relations} relations", "can-be-built": ", can be built",

  "make-title": "Plans", "wish-of": "Plans of", "of-brief": "the brief", "of-drawing": "the drawing", area: "Area of all rooms", any: "any",
  "how-many-plans": "How many plans", search: "Diagrams to try", quick: "quick ({n})", thorough: "thorough ({n})", long: "long ({n})", "living-rules": "Rules",
  "rules-default": "of living", "rules-none": "none", livable: "Only plans that break no rule", "make-plans": "Make plans", "make-plans-title": "Plans to choose from (M)",
  plans: "Plans", variants: "Plans, best first", weigh: "Weigh", even: "As it was", compare: "Compare", "weigh-help": "How much each counts for the order.",
  "compare-title": "Compare the two that are ticked", comparison: "Two plans", close: "Close", "compare-short": "compare",
  "compare-plan": "Compare {name}", "plan-number": "Plan {number}", "choose-plan": "{name}, place {place}: {score}, {kept}",
  pin: "Pin", pinned: "Pinned", "pin-plan": "Pin {name}", "pin-title": "A pinned plan stays when plans are made again",
  "choose-this": "Choose plan {number}", "plan-alt": "Floor plan: {rooms}", "plan-title": "Plan {number}: {area} m²",
  "plan-stale": "The drawing or the plot has changed since this plan was made. Choose it again to go back, or make plans anew.",
  "plan-choose": "Choose a plan to see it large and save it. Its diagram and plot replace what is drawn; Undo brings that back.",
  "plan-changed": "Plan {number}, changed from plan {of}: {area} m²", change: "Change this plan", "end-change": "Show the drawn plan",
  "plan-board": "The plan. Choose a room, then drag its walls; arrow keys move a wall by 0.1 m, with Shift by 0.5 m, Delete puts it back.",
  "plan-rooms": "Rooms of the plan", moves: "Walls that move", "find-nearest": "Find the nearest plan", reset: "Reset",
  "reset-title": "Take back all changes and locks of this plan", "lock-room": "Lock {name}", "lock-none": "free", "lock-place": "place locked",
  "lock-size": "size locked", "is-locked": "Locked; free it to ask for an area", "area-of": "Area of {name}, m²", swap: "Swap with …",
  "swap-room": "Swap {name} with", "new-room": "{name} (new)", "new-type": "Type of the new room", "new-side": "Where the new room is", "add-to": "Add, seen from {name}",
  "wall-left": "Left wall of {name}", "wall-top": "Upper wall of {name}", "wall-right": "Right wall of {name}", "wall-bottom": "Lower wall of {name}",
  "moved-wall": "{wall}: {by}", beyond: "{name} would reach beyond the plot.", "in-way": "{name} would meet {other}, whose place is locked.",
  "change-hint": "Choose a room, lock it, drag a wall, type an area, swap or add rooms. Then find the nearest plan.",
  "find-hint": "Not found yet: make more changes, or find the nearest plan.", "looking-near": "Looking for the nearest plan …",
  "near-found": "Plan {number}, {area} m², takes its place.", "near-short": "Plan {number} is the nearest.", "no-near": "No plan keeps all this: {reason}.",
  "near-meanwhile": "more was changed meanwhile; plan {number} is among the plans, or find the nearest plan again",
  "now-broken": "Broken now: {rules}.", "now-kept": "Kept now: {rules}.", "not-had": "Not to be had: {what}.",
  breaks: "This plan breaks: {rules}.", "breaks-none": "This plan keeps all rules that apply.",
  "save-as": "Save as", "given-up": "Given up", "mend": "Draw {what} and look again", "rules-of-living": "Rules of living", "is-broken": " (broken)", "keeps-all": "keeps all rules",
  "rule-broken": "{n} rule broken", "rules-broken": "{n} rules broken", "gave-up": "{n} given up",
  "score-rules": "Rules kept", "score-light": "Light", "score-compactness": "Compactness", "score-fill": "Fill", "score-areas": "Areas",
  "score-entrance": "Entrance", "score-south": "Living room south", "light-is": "{share} window per floor", "areas-are": "{share} off at most",
  "rule-apart": "rooms share no floor", "rule-front": "front door into a common room", "rule-access": "rooms reached through common rooms",
  "rule-bath": "a bath for all", "rule-doors": "doors wide enough", "rule-swings": "doors turn freely", "rule-width": "rooms wide enough",
  "rule-area": "rooms large enough", "rule-walls": "walls have no gaps", "rule-facade": "rooms at an outer wall",
  "rule-window": "walls enough for windows", "rule-escape": "bedrooms have a way out", "rule-compact": "compact outline", "rule-fill": "the plot is filled",

  hello: "Draw a plot, say a brief, or add rooms; then make plans.", "hello-back": "All is as you left it.",
  "example-is": "An example: three bedrooms on 11 × 9 m. Make plans, or change what is asked.", "bad-link": "The link could not be read; here is an empty drawing.",
  "bad-link-kept": "The link could not be read; here is what was drawn last.", "bad-file": "{name} is no saved file of the studio.", opened: "Opened {name}.",
  full: "This browser keeps no more: save a file, or unpin plans. Undo will not survive a reload.", completing: "Completing …",
  completed: "{n} completions in {seconds} s{about}. Choose one, or complete again for others.", "about": "; approximate: {what}",
  answering: "Answering the brief, which may take half a minute …", answered: "{n} diagrams that meet the brief, in {seconds} s.",
  "looking": "Looking for plans …", waiting: "Looking for plans: {place} of your searches before this one …", "waiting-next": "Looking for plans: next in the queue …",
  "job-sampling": "Looking for plans: drawing diagrams …",
  "job-progress": "Looking for plans: {done} of {total} diagrams tried …", "plans-found": "{n} plans of {diagrams} diagrams, best first.",
  "plan-found": "A plan of {area} m².", "plans-choose": " Choose one: it replaces the drawing, and Undo brings that back.",
  "no-plans": "No plan was found: {reason}. Change the brief, the area or the plot.", cancelled: "Cancelled.",
  "not-complete": "some rooms or relations are open; complete the diagram first", "changed-meanwhile": "the drawing was changed meanwhile; realise it again",
  "brief-meanwhile": "the brief or the plot was changed meanwhile; these plans are of the earlier one",
  saved: "Saved {name}.", "link-copied": "The link is copied; it holds plot, brief and drawing, but no plans.",
  "link-here": "The address of this page holds plot, brief and drawing; copy it from there.",
  "choose-other": "Choose the other room: click it, or take the arrow keys and press R again.", model: "{backbone}, up to {n} rooms",
  progress: "Progress", cancel: "Cancel", "no-answer": "the studio does not answer; is it still running?", "answers-again": "The studio answers again.",
  "too-many-rooms": "The model draws at most {n} rooms; the number is now {n}.", failed: "it failed ({status})",
  "broke-off": "the answer broke off; try again",

  "relation-left-of": "left of", "relation-right-of": "right of", "relation-above": "above", "relation-below": "below",
  "relation-left-above": "left above", "relation-left-below": "left below", "relation-right-above": "right above",
  "relation-right-below": "right below", "relation-inside": "inside", "relation-surrounding": "surrounding",
  "relation-adjacent": "beside", "relation-door": "door", "relation-no-edge": "not related to",
};

const DE = {
  nav: "Dokument", undo: "Zurück", "undo-title": "Rückgängig (Strg+Z)", redo: "Vor", "redo-title": "Wiederholen (Strg+Umschalt+Z)",
  new: "Neu", "open-file": "Öffnen", "open-title": "Eine gesicherte Datei öffnen", save: "Sichern", "save-title": "Alles samt Plänen als Datei sichern",
  share: "Link kopieren", export: "Export", language: "Sprache", "export-diagram": "Diagramm, {format}", "export-plan": "Plan, {format}",
  side: "Was gewünscht ist", "tab-plot": "Grundstück", "tab-brief": "Programm", "tab-drawing": "Zeichnung", work: "Das Diagramm",

  preset: "Grundstück wählen …", "plot-file": "DXF- oder GeoJSON-Datei lesen …", trace: "Ein Bild nachzeichnen …",
  "trace-width": "Das Bild ist so breit wie", "end-trace": "Bild entfernen", "trace-none": "{name} ist kein Bild, das dieser Browser zeigt.",
  outline: "Umriss", "any-outline": "beliebig", square: "Quadrat",
  sides: "Seiten", north: "Norden, im Uhrzeigersinn von oben", unknown: "unbekannt", snap: "Raster", "close-plot": "Umriss schließen",
  "no-plot": "Kein Grundstück", entrance: "Eingang", "entrance-on-side": "Eingang an Seite {number}",
  "entrance-at": "ab der Ecke", "entrance-at-label": "Meter von der Ecke bis zum Eingang",
  "side-length": "Länge der Seite {number} in Metern", "split-side": "Seite {number} teilen", corner: "Ecke {number}",
  "corner-at": "Ecke {number} bei {x}, {y} m", "plot-none": "Kein Grundstück: Der Umriss ist frei. Ecken auf das Raster klicken oder ein Grundstück wählen.",
  "plot-open": "Weitere Ecken klicken; die erste noch einmal schließt den Umriss.", "plot-crosses": "Seiten des Grundstücks kreuzen sich; eine Ecke verschieben.",
  "plot-not-closed": "Der Umriss des Grundstücks ist offen; die erste Ecke anklicken oder „Kein Grundstück“ wählen",
  "plot-area": "{area} m². Ecken ziehen, Längen tippen, für den Eingang eine Seite anklicken.", "plot-read": "Ein Grundstück von {area} m² wurde gelesen.",
  "plot-help": "Pläne füllen das Grundstück, mit der Haustür am Eingang und dem Wohnen im Süden, wenn es geht.",
  "plot-board": "Das Grundstück. Pfeiltasten verschieben eine Ecke, Entf entfernt sie.",
  "geojson-unread": "Die Datei ist kein GeoJSON.", "geojson-none": "Die Datei hat kein Polygon.", "too-many-corners": "Das Polygon hat mehr als 64 Ecken.",

  "number-of-rooms": "Zahl der Räume", "at-least": "Mindestens", "at-most": "Höchstens", to: "bis", rooms: "Räume", relations: "Beziehungen",
  "ask-for": "Gewünscht", "a-room": "ein Raum …", "add-rule": "Regel hinzufügen", "more-keys": "Weiteres", "a-key": "ein Schlüssel …",
  "more-unread": "Die weiteren Schlüssel des Programms sind kein JSON-Objekt wie {\"light\": [\"Kitchen\"]}", connected: "jeder Raum ist erreichbar",
  buildable: "es lässt sich bauen", keep: "Diagramme behalten, was gezeichnet ist", answer: "Nur Diagramme",
  "answer-title": "Diagramme, die das Programm erfüllen, ohne Pläne", "how-exactly": "genau", "how-at least": "mindestens", "how-at most": "höchstens",
  "quantity-some": "ein", "quantity-every": "jeder", "quantity-no": "kein", quantity: "Menge", "first-room": "Erster Raum",
  relation: "Beziehung", "second-room": "Zweiter Raum", "the-rule": "die Regel", "any-bedroom": "Schlafraum (jeder)",
  "how-many": "Wie viele von {name}", "number-of": "Zahl von {name}", "not-met": "Das erfüllt kein Plan:",

  room: "Raum", "any-room": "Irgendein Raum", "add-a-room": "Raum hinzufügen …", "add-room": "Raum hinzufügen", "add-room-title": "Raum hinzufügen (A)",
  "add-relation": "Beziehung hinzufügen", relate: "Verbinden", "relate-title": "Den gewählten Raum mit dem nächsten verbinden (R)",
  given: "fest", open: "offen", "given-button": "Fest", "open-button": "Offen", "given-title": "Fest oder offen (G)",
  remove: "Entfernen", "remove-title": "Entfernen (Entf)", "remove-this": "{what} entfernen", realise: "Plan dazu",
  "realise-title": "Ein Plan zu diesem Diagramm (P)", complete: "Ergänzen", "complete-title": "Alles Offene zeichnen (C)",
  "kept-title": "bleibt beim Ergänzen", "drawn-title": "wird beim Ergänzen neu gezeichnet", "first-room-of": "Erster Raum von {what}",
  "relation-of": "Beziehung von {a} und {b}", "second-room-of": "Zweiter Raum von {what}",
  board: "Das Diagramm. Pfeiltasten wählen einen Raum, mit Umschalt verschieben sie ihn; R verbindet, G hält fest, Entf entfernt.",
  start: "Wünsche nennen: ein Grundstück, ein Programm, oder Räume hier zeichnen. Dann Pläne machen.", example: "Mit einem Beispiel beginnen",

  cards: "Ergänzungen", "drawing-now": "zeichnet …", use: "Nehmen", "use-completion": "Ergänzung {number} nehmen",
  "realise-completion": "Plan zu Ergänzung {number}", size: "{rooms} Räume, {relations} Beziehungen", "can-be-built": ", baubar",

  "make-title": "Pläne", "wish-of": "Pläne nach", "of-brief": "dem Programm", "of-drawing": "der Zeichnung", area: "Fläche aller Räume", any: "beliebig",
  "how-many-plans": "Wie viele Pläne", search: "Versuche", quick: "schnell ({n})", thorough: "gründlich ({n})", long: "lang ({n})", "living-rules": "Regeln",
  "rules-default": "des Wohnens", "rules-none": "keine", livable: "Nur Pläne, die keine Regel brechen", "make-plans": "Pläne machen", "make-plans-title": "Pläne zur Auswahl (M)",
  plans: "Pläne", variants: "Pläne, der beste zuerst", weigh: "Gewichten", even: "Wie vorher", compare: "Vergleichen", "weigh-help": "Wie viel jedes für die Reihenfolge zählt.",
  "compare-title": "Die zwei angekreuzten vergleichen", comparison: "Zwei Pläne", close: "Schließen", "compare-short": "vergleichen",
  "compare-plan": "{name} vergleichen", "plan-number": "Plan {number}", "choose-plan": "{name}, Platz {place}: {score}, {kept}",
  pin: "Merken", pinned: "Gemerkt", "pin-plan": "{name} merken", "pin-title": "Ein gemerkter Plan bleibt, wenn neue Pläne gemacht werden",
  "choose-this": "Plan {number} wählen", "plan-alt": "Grundriss: {rooms}", "plan-title": "Plan {number}: {area} m²",
  "plan-stale": "Zeichnung oder Grundstück sind seit diesem Plan geändert. Ihn noch einmal wählen, um zurückzugehen, oder neue Pläne machen.",
  "plan-choose": "Einen Plan wählen, um ihn groß zu sehen und zu sichern. Sein Diagramm und Grundstück ersetzen, was gezeichnet ist; „Zurück“ holt das wieder.",
  "plan-changed": "Plan {number}, geändert aus Plan {of}: {area} m²", change: "Diesen Plan ändern", "end-change": "Den gezeichneten Plan zeigen",
  "plan-board": "Der Plan. Einen Raum wählen, dann seine Wände ziehen; Pfeiltasten verschieben eine Wand um 0,1 m, mit Umschalt um 0,5 m, Entf setzt sie zurück.",
  "plan-rooms": "Räume des Plans", moves: "Wände, die sich verschieben", "find-nearest": "Den nächsten Plan finden", reset: "Zurücksetzen",
  "reset-title": "Alle Änderungen und Sperren dieses Plans zurücknehmen", "lock-room": "{name} sperren", "lock-none": "frei", "lock-place": "Platz fest",
  "lock-size": "Größe fest", "is-locked": "Gesperrt; für eine andere Fläche freigeben", "area-of": "Fläche von {name}, m²", swap: "Tauschen mit …",
  "swap-room": "{name} tauschen mit", "new-room": "{name} (neu)", "new-type": "Art des neuen Raums", "new-side": "Wo der neue Raum ist", "add-to": "Hinzufügen, von {name} aus",
  "wall-left": "Linke Wand von {name}", "wall-top": "Obere Wand von {name}", "wall-right": "Rechte Wand von {name}", "wall-bottom": "Untere Wand von {name}",
  "moved-wall": "{wall}: {by}", beyond: "{name} ginge über das Grundstück hinaus.", "in-way": "{name} träfe auf {other}, dessen Platz fest ist.",
  "change-hint": "Einen Raum wählen, sperren, eine Wand ziehen, eine Fläche tippen, Räume tauschen oder hinzufügen. Dann den nächsten Plan finden.",
  "find-hint": "Noch nicht gesucht: Mehr ändern, oder den nächsten Plan finden.", "looking-near": "Sucht den nächsten Plan …",
  "near-found": "Plan {number}, {area} m², tritt an seine Stelle.", "near-short": "Plan {number} ist der nächste.", "no-near": "Kein Plan hält das alles ein: {reason}.",
  "near-meanwhile": "Inzwischen wurde mehr geändert; Plan {number} steht bei den Plänen, oder noch einmal suchen",
  "now-broken": "Jetzt verletzt: {rules}.", "now-kept": "Jetzt eingehalten: {rules}.", "not-had": "Nicht zu haben: {what}.",
  breaks: "Dieser Plan verletzt: {rules}.", "breaks-none": "Dieser Plan hält alle Regeln, die gelten.",
  "save-as": "Sichern als", "given-up": "Aufgegeben", "mend": "{what} zeichnen und neu suchen", "rules-of-living": "Regeln des Wohnens", "is-broken": " (verletzt)", "keeps-all": "hält alle Regeln",
  "rule-broken": "{n} Regel verletzt", "rules-broken": "{n} Regeln verletzt", "gave-up": "{n} aufgegeben",
  "score-rules": "Regeln", "score-light": "Licht", "score-compactness": "Kompaktheit", "score-fill": "Füllung", "score-areas": "Flächen",
  "score-entrance": "Eingang", "score-south": "Wohnen nach Süden", "light-is": "{share} Fenster je Boden", "areas-are": "höchstens {share} daneben",
  "rule-apart": "Räume teilen keinen Boden", "rule-front": "Haustür in einen gemeinsamen Raum", "rule-access": "Räume über gemeinsame Räume erreicht",
  "rule-bath": "ein Bad für alle", "rule-doors": "Türen breit genug", "rule-swings": "Türen gehen frei auf", "rule-width": "Räume breit genug",
  "rule-area": "Räume groß genug", "rule-walls": "Wände ohne Lücken", "rule-facade": "Räume an einer Außenwand",
  "rule-window": "Wand genug für Fenster", "rule-escape": "Schlafräume mit Fluchtweg", "rule-compact": "kompakter Umriss", "rule-fill": "Grundstück gefüllt",

  hello: "Ein Grundstück zeichnen, ein Programm nennen oder Räume hinzufügen; dann Pläne machen.", "hello-back": "Alles ist wie zuletzt.",
  "example-is": "Ein Beispiel: drei Schlafräume auf 11 × 9 m. Pläne machen, oder die Wünsche ändern.", "bad-link": "Der Link war nicht zu lesen; hier ist eine leere Zeichnung.",
  "bad-link-kept": "Der Link war nicht zu lesen; hier ist das zuletzt Gezeichnete.", "bad-file": "{name} ist keine gesicherte Datei des Studios.", opened: "{name} ist geöffnet.",
  full: "Dieser Browser behält nicht mehr: eine Datei sichern oder gemerkte Pläne lösen. „Zurück“ übersteht kein Neuladen.", completing: "Ergänzt …",
  completed: "{n} Ergänzungen in {seconds} s{about}. Eine wählen, oder noch einmal ergänzen.", "about": "; ungefähr: {what}",
  answering: "Sucht Diagramme, bis zu einer halben Minute …", answered: "{n} Diagramme, die das Programm erfüllen, in {seconds} s.",
  "looking": "Sucht Pläne …", waiting: "Sucht Pläne: {place} eigene Suchen vor dieser …", "waiting-next": "Sucht Pläne: als nächste an der Reihe …",
  "job-sampling": "Sucht Pläne: zeichnet Diagramme …",
  "job-progress": "Sucht Pläne: {done} von {total} Diagrammen versucht …", "plans-found": "{n} Pläne aus {diagrams} Diagrammen, der beste zuerst.",
  "plan-found": "Ein Plan von {area} m².", "plans-choose": " Einen wählen: Er ersetzt die Zeichnung, „Zurück“ holt sie wieder.",
  "no-plans": "Kein Plan gefunden: {reason}. Programm, Fläche oder Grundstück ändern.", cancelled: "Abgebrochen.",
  "not-complete": "Einige Räume oder Beziehungen sind offen; das Diagramm erst ergänzen", "changed-meanwhile": "Die Zeichnung wurde inzwischen geändert; noch einmal versuchen",
  "brief-meanwhile": "Programm oder Grundstück wurden inzwischen geändert; diese Pläne sind vom früheren",
  saved: "{name} ist gesichert.", "link-copied": "Der Link ist kopiert; er enthält Grundstück, Programm und Zeichnung, aber keine Pläne.",
  "link-here": "Die Adresse dieser Seite enthält Grundstück, Programm und Zeichnung; von dort kopieren.",
  "choose-other": "Den anderen Raum wählen: anklicken, oder Pfeiltasten und noch einmal R.", model: "{backbone}, bis {n} Räume",
  progress: "Fortschritt", cancel: "Abbrechen", "no-answer": "Das Studio antwortet nicht; läuft es noch?", "answers-again": "Das Studio antwortet wieder.",
  "too-many-rooms": "Das Modell zeichnet höchstens {n} Räume; die Zahl ist jetzt {n}.", failed: "Es ging schief ({status})",
  "broke-off": "Die Antwort brach ab; noch einmal versuchen",

  "relation-left-of": "links von", "relation-right-of": "rechts von", "relation-above": "über", "relation-below": "unter",
  "relation-left-above": "links über", "relation-left-below": "links unter", "relation-right-above": "rechts über",
  "relation-right-below": "rechts unter", "relation-inside": "in", "relation-surrounding": "um",
  "relation-adjacent": "neben", "relation-door": "Tür zu", "relation-no-edge": "ohne Beziehung zu",

  "name-LivingRoom": "Wohnzimmer", "name-MasterRoom": "Schlafzimmer", "name-Kitchen": "Küche", "name-Bathroom": "Bad",
  "name-DiningRoom": "Esszimmer", "name-ChildRoom": "Kinderzimmer", "name-StudyRoom": "Arbeitszimmer", "name-SecondRoom": "Zweites Schlafzimmer",
  "name-GuestRoom": "Gästezimmer", "name-Balcony": "Balkon", "name-Entrance": "Diele", "name-Storage": "Abstellraum", "name-Wall-in": "Schrankraum",
  "name-Bedroom": "Zimmer", "name-Outdoor": "Außenraum", "name-Garage": "Garage", "name-Other": "Raum",
  "short-LivingRoom": "Wohnen", "short-MasterRoom": "Schlafen", "short-DiningRoom": "Essen", "short-ChildRoom": "Kind", "short-StudyRoom": "Arbeiten",
  "short-SecondRoom": "Zimmer", "short-GuestRoom": "Gast", "short-Storage": "Abst.", "short-Wall-in": "Schrank", "short-Outdoor": "Außen",
};

const LANGUAGES = { en: EN, de: DE };
const CHOSEN = "discrete-diffusion studio language";

export const language = (() => {
  let chosen = null;
  try { chosen = localStorage.getItem(CHOSEN); } catch { /* not allowed here */ }
  return [chosen, navigator.language.slice(0, 2)].find((each) => Object.hasOwn(LANGUAGES, each ?? "")) ?? "en";
})();

export function chooseLanguage(name) {
  try { localStorage.setItem(CHOSEN, name); } catch { /* until the next visit only */ }
}

/** A label with its facts; `other`: where there is none of that name. */
export function t(name, facts = {}, other = name) {
  const label = LANGUAGES[language][name] ?? EN[name] ?? other;
  return label.replace(/\{(\w+)\}/g, (all, fact) => facts[fact] ?? all);
}

/** What the model calls a room, in the language of the page. */
export const roomWord = ({ type, name, label, ...others }) => ({
  ...others, type, name: t(`name-${type}`, {}, name), label: t(`short-${type}`, {}, t(`name-${type}`, {}, label)),
});

const NUMBERS = {};
export function percent(share, digits = 0) {
  NUMBERS[digits] ??= new Intl.NumberFormat(language, { style: "percent", minimumFractionDigits: digits, maximumFractionDigits: digits });
  return NUMBERS[digits].format(share);
}

/** Write the labels into the page: of data-text, data-title, data-label and data-placeholder. */
export function labelPage() {
  document.documentElement.lang = language;
  const places = {
    text: (each, said) => { each.textContent = said; }, title: (each, said) => { each.title = said; },
    label: (each, said) => { each.ariaLabel = said; }, placeholder: (each, said) => { each.placeholder = said; },
  };
  for (const [place, write] of Object.entries(places)) {
    for (const each of document.querySelectorAll(`[data-${place}]`)) write(each, t(each.dataset[place]));
  }
  for (const each of document.querySelectorAll("#export button")) {
    each.textContent = t(`export-${each.dataset.of}`, { format: { graphml: "GraphML", geojson: "GeoJSON" }[each.dataset.format] ?? each.dataset.format.toUpperCase() });
  }
}

/** Labels that a language lacks. */
export const missing = () => Object.values(LANGUAGES).flatMap((labels) =>
  Object.keys(EN).filter((name) => !Object.hasOwn(labels, name)));
